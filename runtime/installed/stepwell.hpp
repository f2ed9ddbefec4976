/* stepwell in C++ (C++17): owners for the objects of <stepwell.h>, errors as exceptions, step
 * functions that are lambdas. There is nothing to link beside the library, and no second API:
 * an owner converts to the pointer that it owns, and every function of <stepwell.h> is called
 * as it stands there.
 *
 *     #include <stepwell.hpp>
 *
 *     auto opts = stepwell::sized<sw_exec_opts>();
 *     opts.threads = 2;
 *     auto exec = stepwell::make(sw_exec_create, &opts);
 *     auto model = stepwell::make(sw_model_create, "mlp");
 *     sw_linear layer = sw_linear_new(model, "fc1", 784, 10);
 *     stepwell::check(sw_model_ready(model, exec, 1));
 *
 * Owners move and do not copy. Declare them in the order of their dependence, budget, exec,
 * model, loader: they are destroyed in the reverse order, as <stepwell.h> asks. An object that
 * belongs to another one (an optimizer to its model) is made by stepwell::borrow, which gives
 * the plain pointer. */
#ifndef STEPWELL_HPP
#define STEPWELL_HPP

#include <cstddef>
#include <stdexcept>
#include <stepwell.h>
#include <string>
#include <type_traits>
#include <utility>

namespace stepwell
{

/* ---- errors ------------------------------------------------------------------------------ */

/* A status that is not SW_OK; what() is sw_last_error() at that moment. */
class error : public std::runtime_error
{
  public:
    explicit error(sw_status status) : std::runtime_error(sw_last_error()), status_(status)
    {
    }
    sw_status status() const noexcept
    {
        return status_;
    }

  private:
    sw_status status_;
};

/* Throws error for all but SW_OK. */
inline void check(sw_status status)
{
    if (status != SW_OK)
        throw error(status);
}

/* A struct that begins with its own size: all zero, which means default, but for that. */
template <typename T> T sized() noexcept
{
    static_assert(std::is_same_v<decltype(T::size), size_t>, "the struct must have a size");
    T made{};
    made.size = sizeof made;
    return made;
}

/* ---- owners ------------------------------------------------------------------------------ */

/* How an object ends; there is one for each destroy function of <stepwell.h>. */
template <typename T> struct end_of : std::false_type {
};

#define STEPWELL_OWNED(object)                                                                 \
    template <> struct end_of<object> : std::true_type {                                       \
        static void end(object *it) noexcept                                                   \
        {                                                                                      \
            object##_destroy(it);                                                              \
        }                                                                                      \
    };
STEPWELL_OWNED(sw_budget)
STEPWELL_OWNED(sw_exec)
STEPWELL_OWNED(sw_model)
STEPWELL_OWNED(sw_members)
STEPWELL_OWNED(sw_feed)
STEPWELL_OWNED(sw_space)
STEPWELL_OWNED(sw_pbt)
STEPWELL_OWNED(sw_es)
STEPWELL_OWNED(sw_zo)
STEPWELL_OWNED(sw_genome)
STEPWELL_OWNED(sw_search_space)
STEPWELL_OWNED(sw_net)
STEPWELL_OWNED(sw_evolution)
STEPWELL_OWNED(sw_dataset)
STEPWELL_OWNED(sw_loader)
STEPWELL_OWNED(sw_checkpoint)
#undef STEPWELL_OWNED
template <> struct end_of<sw_profile> : std::true_type {
    static void end(sw_profile *it) noexcept
    {
        const sw_status lost = sw_profile_destroy(it);
        (void)lost; /* a destructor cannot report it: stepwell::close does */
    }
};

/* The only owner of an object, or of none. */
template <typename T> class owner
{
    static_assert(end_of<T>::value, "this object belongs to another one: use stepwell::borrow");

  public:
    constexpr owner() noexcept = default;
    explicit owner(T *object) noexcept : object_(object)
    {
    }
    owner(owner &&other) noexcept : object_(other.release())
    {
    }
    owner &operator=(owner &&other) noexcept
    {
        if (this != &other)
            reset(other.release());
        return *this;
    }
    owner(const owner &) = delete;
    owner &operator=(const owner &) = delete;
    ~owner()
    {
        reset();
    }

    T *get() const noexcept
    {
        return object_;
    }
    operator T *() const &noexcept
    {
        return object_;
    }
    operator T *() const && = delete; /* it would end with the expression */
    /* The caller owns it from now on. */
    [[nodiscard]] T *release() noexcept
    {
        return std::exchange(object_, nullptr);
    }
    /* Destroy the object, and own another. */
    void reset(T *object = nullptr) noexcept
    {
        if (T *old = std::exchange(object_, object))
            end_of<T>::end(old);
    }
    /* For functions that make an object: destroys the one that is owned, and gives the place of
     * the next one. */
    [[nodiscard]] T **out() noexcept
    {
        reset();
        return &object_;
    }

  private:
    T *object_ = nullptr;
};

using budget = owner<sw_budget>;
using exec = owner<sw_exec>;
using model = owner<sw_model>;
using members = owner<sw_members>;
using feed = owner<sw_feed>;
using space = owner<sw_space>;
using pbt = owner<sw_pbt>;
using es = owner<sw_es>;
using zo = owner<sw_zo>;
using genome = owner<sw_genome>;
using search_space = owner<sw_search_space>;
using net = owner<sw_net>;
using evolution = owner<sw_evolution>;
using dataset = owner<sw_dataset>;
using loader = owner<sw_loader>;
using checkpoint = owner<sw_checkpoint>;
using profile = owner<sw_profile>;

/* Call a function of <stepwell.h> with a first argument that is the place of the object that it
 * makes, with the other arguments: make(sw_dataset_idx, "mnist", "train"). Throws error. */
template <typename T, typename... Parameters, typename... Arguments>
[[nodiscard]] owner<T> make(sw_status (*create)(T **, Parameters...), Arguments &&...arguments)
{
    owner<T> made;
    check(create(made.out(), std::forward<Arguments>(arguments)...));
    return made;
}

/* The same for what belongs to another object, which ends it. */
template <typename T, typename... Parameters, typename... Arguments>
[[nodiscard]] T *borrow(sw_status (*create)(T **, Parameters...), Arguments &&...arguments)
{
    static_assert(!end_of<T>::value, "the caller must end this object: use stepwell::make");
    T *made = nullptr;
    check(create(&made, std::forward<Arguments>(arguments)...));
    return made;
}

/* Destroy a profile now, and throw error where its file could not be written whole; the
 * destructor cannot report. */
inline void close(profile &it)
{
    check(sw_profile_destroy(it.release()));
}

/* ---- texts and bytes --------------------------------------------------------------------- */

/* The text of a genome, as sw_genome_print gives it. */
inline std::string print(const sw_genome *of)
{
    char *text = nullptr;
    std::size_t bytes = 0;
    check(sw_genome_print(of, &text, &bytes));
    struct guard {
        char *text;
        std::size_t bytes;
        ~guard()
        {
            sw_text_free(text, bytes);
        }
    } const kept{text, bytes};
    return std::string(text, bytes);
}

/* The bytes that sw_pbt_save gives. */
inline std::string save(const sw_pbt *of)
{
    void *data = nullptr;
    std::size_t bytes = 0;
    check(sw_pbt_save(of, &data, &bytes));
    struct guard {
        void *data;
        std::size_t bytes;
        ~guard()
        {
            sw_pbt_free(data, bytes);
        }
    } const kept{data, bytes};
    return std::string(static_cast<const char *>(data), bytes);
}

/* ---- step functions ---------------------------------------------------------------------- */

/* Set fn and user of run or member arguments to a callable void(sw_ctx *). The arguments point
 * to it, and a program is planned once for each callable: keep it, like a model, while the
 * exec runs it. An exception may leave it, as <stepwell.h> says. */
template <typename Arguments, typename Step> void set_step(Arguments &arguments, Step &step)
{
    static_assert(std::is_invocable_v<Step &, sw_ctx *>, "a step takes a sw_ctx *");
    arguments.fn = [](sw_ctx *ctx, void *user) { (*static_cast<Step *>(user))(ctx); };
    arguments.user = const_cast<void *>(static_cast<const void *>(&step));
}
template <typename Arguments, typename Step> void set_step(Arguments &, const Step &&) = delete;

/* sw_scope_begin, and sw_scope_end where the block ends. */
class scope
{
  public:
    scope(sw_ctx *ctx, const char *name) noexcept : ctx_(ctx)
    {
        sw_scope_begin(ctx, name);
    }
    ~scope()
    {
        sw_scope_end(ctx_);
    }
    scope(const scope &) = delete;
    scope &operator=(const scope &) = delete;

  private:
    sw_ctx *ctx_;
};

} // namespace stepwell

#endif
