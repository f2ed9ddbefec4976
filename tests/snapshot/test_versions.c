/* The files of PyTorch's versions: members that come and go, and notes that mean nothing
 * here. */
#include "tests/snapshot/files.h"
#include "tests/snapshot/replanned.h"
#include "tests/support/suite.h"
#include "tests/support/timeline.h"
#include "profiler/inspect/profile_read.h"

SW_TESTS("versions")

/* PyTorch 2.0: no settings, no times, no type of a block's request but its history. */
static const char of_2_0[] =
    "{'segments':[{'device':0,'address':1048576,'total_size':2097152,'allocated_size':1536,'"
    "active_size':1536,'stream':0,'segment_type':'small','blocks':[{'size':1024,'state':'"
    "active_allocated','history':[{'addr':1048576,'real_size':1000,'frames':[{'filename':'net."
    "py','line':1,'name':'kept'}]},{'addr':1048576,'real_size':7,'frames':[{'filename':'net.py'"
    ",'line':1,'name':'old'}]}]},{'size':512,'state':'active_allocated','history':[{'addr':"
    "1049600,'real_size':300}]},{'size':2095616,'state':'inactive'}]}],'device_traces':[[{'"
    "action':'alloc','addr':1049600,'size':300,'stream':0,'frames':[{'filename':'net.py','line'"
    ":1,'name':'made'}]}]]}";

SW_TEST("files of PyTorch 2.0 are read")
{
    sw_timeline *t;
    const replan *r = planned_json(of_2_0);
    CU_ASSERT(r->trace.cuda && r->replayed && !r->trace.said_settings);
    SW_CHECK(r->proof.from == TRACE_NONE && r->proof.n_checked == 1, "%s", r->proof.why);
    CU_ASSERT_EQUAL(r->whole.bound, 1300);
    CU_ASSERT(r->at_reserved.known && r->at_reserved.census.requested == 1300 &&
              r->at_reserved.census.rounding == 24 + 212);
    CU_ASSERT_EQUAL(r->holders[0].bytes, 1000);
    CU_ASSERT_STRING_EQUAL(r->trace.stacks[r->holders[0].stack].op, "net.py:1 kept");
    const char *text = planned_text(r);
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "does not say the allocator's settings"));
    const char *path = put_json("of20.json", of_2_0);
    CU_ASSERT_EQUAL_FATAL(timeline_open(&t, path, NULL), SW_OK);
    CU_ASSERT_STRING_EQUAL(t->device, "cuda:0");
    CU_ASSERT_EQUAL(sw_timeline_peak(t)->peak_bytes, 1300);
    sw_timeline_free(t);
}

/* Pools stand with the events, and there are notes. The segment of the pool is gone at the end,
 * so that events alone say that it was the pool's. */
static const char events_of_2_12[] =
    "user_defined 0 0 'time_us':5,'user_metadata':'begin';segment_alloc 2097152 2097152 "
    "'time_us':5,'pool_id':[1,7];alloc 2097152 500 "
    "'time_us':5,'pool_id':[1,7],'compile_context':'0/0';annotate 2097152 500 "
    "'time_us':5,'internal_metadata':'x';segment_alloc 8388608 2097152 "
    "'time_us':5,'pool_id':[0,0];alloc 8388608 400 'time_us':5,'pool_id':[0,0]; snapshot 0 0 "
    "'time_us':5;free_requested 2097152 500 'time_us':5,'pool_id':[1,7];free_completed 2097152 "
    "500 'time_us':5,'pool_id':[1,7];segment_free 2097152 2097152 "
    "'time_us':5,'pool_id':[1,7];free_requested 8388608 400 "
    "'time_us':5,'pool_id':[0,0];free_completed 8388608 400 "
    "'time_us':5,'pool_id':[0,0];segment_free 8388608 2097152 'pool_id':[0,0]";

static const char file_of_2_12[] =
    "{'segments':[],'external_annotations':[{'name':'step','stage':'START','device':0,'time_us'"
    ":3}],'host_segments':[],'host_traces':[[]],'device_traces':[[%s]],'allocator_settings':{'"
    "PYTORCH_CUDA_ALLOC_CONF':'backend:native, "
    "max_non_split_rounding_mb:64,large_segment_size_mb:40','max_split_size':-1,'garbage_"
    "collection_threshold':0.0,'expandable_segments':false,'release_lock_on_cudamalloc':true,'"
    "roundup_power2_divisions':{'1':0,'2':4,'4':8,'32768':2}}}";

SW_TEST("pools and settings are read, and notes are not")
{
    const replan *r = planned_json(sw_textf(file_of_2_12, made_events(events_of_2_12)));
    const caching_settings *s = &r->trace.settings;
    SW_CHECK(r->proof.from == TRACE_NONE && r->proof.n_checked == 2, "%s", r->proof.why);
    CU_ASSERT_EQUAL(r->trace.n_events, 10);
    CU_ASSERT_EQUAL(r->lives.n_arenas, 2);
    CU_ASSERT_EQUAL(r->lives.arenas[0].pool, ((uint64_t)1 << 32) + 7);
    CU_ASSERT_EQUAL(r->at_reserved.census.other_pools, 2 * MIB - 512);
    CU_ASSERT(s->unlocked && !s->expandable && s->max_split_bytes == UINT64_MAX);
    CU_ASSERT(s->max_rounding_bytes == 64 * MIB && s->large_page_bytes == 40 * MIB);
    CU_ASSERT(s->divisions[0] == 0 && s->divisions[1] == 4 && s->divisions[2] == 8 &&
              s->divisions[15] == 2);
}

/* Both names that the state of a block has had, and a large block that stays whole: 60 MiB are
 * taken for 40 where the environment's text lets them be 64 MiB larger. */
SW_TEST("states and whole blocks have their names")
{
    static const char *const states[] = {"active_pending_free", "active_awaiting_free"};
    for (int i = 0; i < 2; i++) {
        const replan *r = planned_json(sw_textf(
            "{'segments':[{'device':0,'address':1048576,'total_size':62914560,'stream':0,"
            "'segment_type':'large','blocks':[{'size':62914560,'requested_size':41943040,"
            "'state':'%s','frames':[]}]}],'device_traces':[[%s]],"
            "'allocator_settings':{'expandable_segments':false,'max_split_size':33554432,"
            "'PYTORCH_CUDA_ALLOC_CONF':'max_non_split_rounding_mb:64'}}",
            states[i],
            made_events("segment_alloc 1048576 62914560; alloc 1048576 62914560;"
                        "free_requested 1048576 62914560; free_completed 1048576 62914560;"
                        "alloc 1048576 41943040; free_requested 1048576 41943040")));
        SW_CHECK(r->proof.from == TRACE_NONE && r->proof.n_checked == 2, "%s", r->proof.why);
        CU_ASSERT_EQUAL(r->whole.bound, 60 * MIB);
        CU_ASSERT(r->expandable >= 60 * MIB); /* what-if, with blocks that the search refuses */
        CU_ASSERT(r->trace.n_blocks == 1 && r->trace.blocks[0].pending);
    }
}
