/* C++: a perceptron learns which of two circles a point lies in. Owners end what they own, also
 * where a step throws; errors are exceptions; the step function is a lambda.
 *
 * c++ -std=c++17 owners.cpp $(pkg-config --cflags --libs stepwell) */
#include <array>
#include <cmath>
#include <cstdio>
#include <stepwell.hpp>
#include <vector>

namespace
{

#define CHECK(condition)                                                                       \
    do {                                                                                       \
        if (!(condition)) {                                                                    \
            std::fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);       \
            return false;                                                                      \
        }                                                                                      \
    } while (0)

constexpr int rows = 64, steps = 200;

struct circles {
    std::vector<float> x = std::vector<float>(rows * 2);
    std::vector<unsigned char> labels = std::vector<unsigned char>(rows);

    circles()
    {
        for (int i = 0; i < rows; i++) {
            const float angle = 0.7f * static_cast<float>(i), radius = i % 2 ? 1.0f : 0.4f;
            x[2 * i] = radius * std::cos(angle);
            x[2 * i + 1] = radius * std::sin(angle);
            labels[i] = static_cast<unsigned char>(i % 2);
        }
    }
    std::array<sw_array, 2> inputs() const
    {
        return {sw_array{SW_F32, SW_SHAPE(rows, 2), x.data()},
                sw_array{SW_U8, SW_SHAPE(rows), labels.data()}};
    }
};

/* Layers and the optimizer of one model. */
struct perceptron {
    stepwell::model model;
    sw_linear hidden, out;
    sw_optimizer *adam;

    explicit perceptron(const char *name)
        : model(stepwell::make(sw_model_create, name)),
          hidden(sw_linear_new(model, "hidden", 2, 16)), out(sw_linear_new(model, "out", 16, 2))
    {
        auto opts = stepwell::sized<sw_optimizer_opts>();
        opts.kind = "adam";
        opts.lr = 0.02f;
        adam = stepwell::borrow(sw_optimizer_create, model, &opts);
    }
    sw_value loss(sw_ctx *ctx) const
    {
        const stepwell::scope scope(ctx, "net");
        const sw_value x = sw_tanh(ctx, sw_apply_linear(ctx, hidden, sw_input(ctx, 0)));
        return sw_softmax_ce(ctx, sw_apply_linear(ctx, out, x), sw_input(ctx, 1));
    }
};

bool trains()
{
    auto opts = stepwell::sized<sw_exec_opts>();
    opts.threads = 2;
    const auto budget = stepwell::make(sw_budget_create, std::size_t{16} << 20);
    opts.budget = budget;
    const auto exec = stepwell::make(sw_exec_create, &opts);
    const perceptron net("circles");
    stepwell::check(sw_model_ready(net.model, exec, 1));
    const circles data;
    const auto inputs = data.inputs();
    sw_model *const models[] = {net.model};

    const auto step = [&net](sw_ctx *ctx) {
        const sw_value loss = net.loss(ctx);
        sw_metric(ctx, "loss", loss);
        sw_backward(ctx, loss, &net.adam, 1);
        sw_update(ctx, net.adam);
    };
    auto args = stepwell::sized<sw_run_args>();
    stepwell::set_step(args, step);
    args.models = models;
    args.n_models = 1;
    args.inputs = inputs.data();
    args.n_inputs = 2;
    double first = 0.0, last = 0.0;
    for (; args.step < steps; args.step++) {
        stepwell::check(sw_run(exec, &args));
        stepwell::check(sw_metric_get(exec, "loss", &last));
        first = args.step == 0 ? last : first;
    }
    std::printf("loss %.4f, then %.4f after %d steps\n", first, last, steps);
    CHECK(first > 0.5 && last < 0.05);
    return true;
}

/* An exception that a step throws comes out of sw_run, and everything still ends. */
bool a_step_may_throw()
{
    auto opts = stepwell::sized<sw_exec_opts>();
    const auto exec = stepwell::make(sw_exec_create, &opts);
    const perceptron net("throws");
    stepwell::check(sw_model_ready(net.model, exec, 1));
    const circles data;
    const auto inputs = data.inputs();
    sw_model *const models[] = {net.model};
    auto step = [&net](sw_ctx *ctx) {
        (void)net.loss(ctx);
        throw std::runtime_error("no more");
    };
    auto args = stepwell::sized<sw_run_args>();
    stepwell::set_step(args, step);
    args.models = models;
    args.n_models = 1;
    args.inputs = inputs.data();
    args.n_inputs = 2;
    try {
        stepwell::check(sw_run(exec, &args));
    } catch (const std::runtime_error &e) {
        return std::string(e.what()) == "no more";
    }
    return false;
}

bool errors_are_exceptions()
{
    try {
        (void)stepwell::make(sw_dataset_idx, "no such folder", "train");
    } catch (const stepwell::error &e) {
        CHECK(e.status() == SW_IO && std::string(e.what()).find("no such folder") == 0);
        return true;
    }
    return false;
}

/* Does a model of 4 MiB fit? */
bool fits(sw_exec *exec)
{
    const auto model = stepwell::make(sw_model_create, "probe");
    (void)sw_linear_new(model, "layer", 1024, 1024);
    return sw_model_ready(model, exec, 1) == SW_OK;
}

/* Ownership moves, and ends once: the budget has room for one model, so it shows whether there
 * is another. */
bool owners_move()
{
    const auto budget = stepwell::make(sw_budget_create, std::size_t{6} << 20);
    auto opts = stepwell::sized<sw_exec_opts>();
    opts.budget = budget;
    auto exec = stepwell::make(sw_exec_create, &opts);
    auto first = stepwell::make(sw_model_create, "first");
    (void)sw_linear_new(first, "layer", 1024, 1024);
    stepwell::check(sw_model_ready(first, exec, 1));
    CHECK(!fits(exec));
    stepwell::model second = std::move(first);
    CHECK(first.get() == nullptr && second.get() != nullptr && !fits(exec));
    second = stepwell::model();
    CHECK(second.get() == nullptr && fits(exec));
    stepwell::check(sw_model_create(second.out(), "third"));
    stepwell::check(sw_model_create(second.out(), "fourth"));
    sw_model *const plain = second.release();
    CHECK(plain != nullptr && second.get() == nullptr);
    second.reset(plain);
    CHECK(second.get() == plain);
    return true;
}

bool texts_are_strings()
{
    auto task = stepwell::sized<sw_task>();
    task.channels = 8;
    task.classes = 2;
    const auto space = stepwell::make(sw_search_space_default, &task);
    stepwell::genome genome;
    stepwell::check(sw_genome_draw(genome.out(), space, &task, 1));
    const std::string text = stepwell::print(genome);
    const auto again = stepwell::make(sw_genome_parse, text.data(), text.size(), "text");
    CHECK(!text.empty() && stepwell::print(again) == text);
    return true;
}

/* close() tells what the destructor cannot. */
bool profiles_close()
{
    auto opts = stepwell::sized<sw_profile_opts>();
    auto profile = stepwell::make(sw_profile_create, &opts);
    stepwell::close(profile);
    CHECK(profile.get() == nullptr);
    return true;
}

} // namespace

int main()
{
    try {
        return trains() && a_step_may_throw() && errors_are_exceptions() && owners_move() &&
                       texts_are_strings() && profiles_close()
                   ? 0
                   : 1;
    } catch (const std::exception &e) {
        std::fprintf(stderr, "%s\n", e.what());
        return 1;
    }
}
