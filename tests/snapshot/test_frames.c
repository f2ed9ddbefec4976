/* Names from frames: what PyTorch with and without C++ stacks records, and our own. */
#include "tests/snapshot/files.h"
#include "tests/support/suite.h"
#include "profiler/inspect/values.h"
#include "profiler/inspect/snapshot.h"

SW_TESTS("frames")

typedef struct {
    const char *frames; /* file|line|name, from the inside out, one after another by ';' */
    const char *op, *layer;
    int phase;
} frames_case;

#define TORCH "/usr/lib/python3.11/site-packages/torch/"

static const frames_case cases[] = {
    {"", "", "", -1},
    {TORCH "nn/modules/linear.py|125|forward;/users/u/net.py|12|forward;" TORCH
           "nn/modules/module.py|1501|_call_impl;/users/u/train.py|40|step;/users/u/"
           "train.py|90|<module>",
     "linear.py:125 forward", "train.py:40 step/net.py:12 forward", 1},
    {"/users/u/train.py|90|<module>", "train.py:90 <module>", "train.py:90 <module>", 1},
    {"??|0|torch::unwind::unwind();??|0|at::_ops::empty_memory_format::call(c10::SymInt);"
     "??|0|at::native::addmm;??|0|at::_ops::addmm::call(at::Tensor const&);/users/u/net.py|7|f",
     "aten::addmm", "net.py:7 f", 1},
    {"??|0|at::_ops::mm::call();??|0|torch::autograd::Engine::thread_main(x)", "aten::mm", "",
     3},
    {"a.cpp|3|only_native", "only_native", "", 1},
    {TORCH "optim/adam.py|300|_single_tensor_adam;/users/u/t.py|9|main",
     "adam.py:300 _single_tensor_adam", "t.py:9 main", 4},
    {TORCH "autograd/graph.py|8|_engine_run_backward;" TORCH
           "_tensor.py|500|backward;/t.py|1|main",
     "graph.py:8 _engine_run_backward", "t.py:1 main", 3},
    {TORCH "utils/data/dataloader.py|1|__next__;<frozen runpy>|88|_run_code;"
           "/usr/lib/python3.11/contextlib.py|79|inner",
     "dataloader.py:1 __next__", "", 0},
    {"/x/a.py|1|e;/x/a.py|2|d;/x/a.py|3|c;/x/a.py|4|b;/x/a.py|5|a", "a.py:1 e",
     "a.py:4 b/a.py:3 c/a.py:2 d/a.py:1 e", 1},
    {"<ipython-input-3>|2|a/b", "<ipython-input-3>:2 a|b", "<ipython-input-3>:2 a|b", 1},
    {"none|0|<built-in method conv2d of type object at "
     "0x7f0>;none|0|torch/nn/modules/conv.py(548): _conv_forward;none|0|nn.Module: "
     "Conv2d_0;none|0|a/net.py(3): forward;none|0|nn.Module: Net_1;none|0|train.py(9): "
     "<module>",
     "conv2d", "Net_1/Conv2d_0", 1},
    {"none|0|<built-in function linear>;none|0|a/net.py(33): run", "linear", "net.py:33 run",
     1},
    {"none|0|<built-in method run_backward of x>;none|0|torch/autograd/graph.py(1): _run",
     "run_backward", "", 3},
    {"none|0|torch/optim/adam.py(140): step;none|0|x(): ", "adam.py:140 step", "", 4},
    {"none|0|plain", "plain", "", 1},
    {"none|0|): x", "): x", "", 1},
    {"none|0|<built-in ", "<built-in ", "", 1},
    {"tensor|5|fc1.out;op|3|fc1/linear;layer|1|fc1;layer|0|head;role|0|saved;phase|0|loss",
     "fc1/linear", "head/fc1", 2},
};

/* The text of a case as JSON. */
static void as_json(const char *frames, char *to, size_t room)
{
    char copy[2048], *rest = copy;
    snprintf(copy, sizeof copy, "%s", frames);
    snprintf(to, room, "[");
    for (char *f; *frames != '\0' && (f = strsep(&rest, ";")) != NULL;) {
        const char *file = strsep(&f, "|"), *line = strsep(&f, "|");
        const size_t n = strlen(to);
        snprintf(to + n, room - n, "%s{\"filename\":\"%s\",\"line\":%s,\"name\":\"%s\"}",
                 n > 1 ? "," : "", file, line, f);
    }
    strcat(to, "]");
}

SW_TEST("frames tell op, layer and phase")
{
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char json[4096];
        tree_file f;
        sw_timeline *t;
        snapshot_frames got;
        as_json(cases[i].frames, json, sizeof json);
        const char *path = put_file("frames.json", json, strlen(json));
        CU_ASSERT_EQUAL_FATAL(tree_open(&f, path, json_tree_read), SW_OK);
        CU_ASSERT_EQUAL_FATAL(sw_timeline_new(&t), SW_OK);
        CU_ASSERT_EQUAL(snapshot_frames_read(t, f.top, &got), SW_OK);
        SW_CHECK(strcmp(got.op, cases[i].op) == 0, "%zu: %s", i, got.op);
        SW_CHECK(strcmp(got.layer, cases[i].layer) == 0, "%zu: %s", i, got.layer);
        SW_CHECK(got.phase == cases[i].phase, "%zu: %d", i, got.phase);
        sw_timeline_free(t);
        tree_close(&f);
    }
}

/* Names of any length and frames of any shape: cut, never torn. */
SW_TEST("long and odd frames are cut")
{
    static char json[200000];
    tree_file f;
    sw_timeline *t;
    snapshot_frames got;
    size_t n =
        (size_t)snprintf(json, sizeof json, "[1,null,{},{\"filename\":3,\"name\":\"x\"}");
    for (int i = 0; i < 100; i++) {
        n += (size_t)snprintf(json + n, sizeof json - n,
                              ",{\"filename\":\"layer\",\"line\":0,\"name\":\"");
        memset(json + n, 'x', 1000);
        n += 1000;
        n += (size_t)snprintf(json + n, sizeof json - n, "\"}");
    }
    snprintf(json + n, sizeof json - n, "]");
    const char *path = put_file("odd.json", json, strlen(json));
    CU_ASSERT_EQUAL_FATAL(tree_open(&f, path, json_tree_read), SW_OK);
    CU_ASSERT_EQUAL_FATAL(sw_timeline_new(&t), SW_OK);
    CU_ASSERT_EQUAL(snapshot_frames_read(t, f.top, &got), SW_OK);
    CU_ASSERT(strlen(got.op) < 512 && strlen(got.layer) < 512);
    CU_ASSERT_EQUAL(snapshot_frames_read(t, 0, &got), SW_OK);
    CU_ASSERT_STRING_EQUAL(got.op, "");
    sw_timeline_free(t);
    tree_close(&f);
}
