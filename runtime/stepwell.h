/* stepwell: a training runtime that is about memory. The public header; C11 and C++ read it.
 *
 * A training program creates an exec (device, threads, one step arena) and a model
 * (parameters), writes one step function, and calls sw_run for each batch. The first run of a
 * shape traces the function, plans every byte, and later runs only compute.
 *
 * Threads: an exec, a model and a ctx belong to one thread at a time (checked: SW_BUSY).
 * Budgets and datasets may be shared. The library never prints, aborts or exits.
 *
 * Forks: in the child an exec with one thread, without device and profile, and a loader
 * without a thread (inline_fill) can be used. Other execs and loaders, and profiles, are
 * SW_BUSY there; destroying them is fine and waits for nothing.
 *
 * Objects end with their destroy function, to which NULL is fine. NULL elsewhere, unless it is
 * said to be allowed, and an object that was destroyed, or destroyed twice, is SW_INVALID: by
 * name, until its memory is used again, which is the last of 64 (of profiles, 4). Functions
 * without a status do nothing, or return 0 or an empty handle, and set sw_last_error(). In a
 * step function, or in a visitor, nothing can be destroyed but budgets and datasets: the call
 * does nothing, and sw_run is SW_INVALID. Builds with sanitizers leave this to them.
 *
 * Callbacks: what the call that a callback runs in goes on with (an evolution, a population, an
 * evolution strategy, a checkpoint, a group of members) is SW_BUSY there by name, whatever
 * changes, continues or destroys it; functions that only look at it work, and
 * everything with other objects works too. Its exec, models and genomes can be used, but not
 * destroyed. A callback of members may read and write members; it does not make, end, copy or
 * unpack any of its group. A number that is not a status becomes SW_INVALID. Only step
 * functions may be left by longjmp.
 *
 * A step function may be left by longjmp or an exception. The exec can be used, or destroyed,
 * in the function that called sw_run or in one outside of it; deeper it is SW_BUSY, as in the
 * step function itself. Models of an immediate run that had updated must be restored.
 *
 * Errors: functions that can fail return sw_status; sw_last_error() has the reason. Inside a
 * step function ops return handles instead: the first error stays in the ctx, later ops do
 * nothing, and sw_run returns it.
 *
 * Numbers: float32; the bits do not depend on the number of threads, nor on planned or
 * immediate mode. NaN and infinities go through ops as they do in PyTorch. Denormals, numbers
 * below 1.2e-38, are zero while a run computes on an x86-64 CPU (see sw_run); other CPUs and
 * the kernels for devices keep them.
 *
 * Structs that may grow begin with their own size, which the caller sets to sizeof; zero in a
 * field means default. Fields are only ever appended, and never in the padding at the end. One
 * rule for all, options, descriptors and results: the size is at least that of the struct in
 * 0.1 and at most 4096, and ends inside no field; else SW_INVALID, which says what to set.
 * Fields past it have their default and are not written; fields that this library does not know
 * yet are ignored. Structs that stand in arrays or are passed by value have reserved words
 * instead, which must be zero. In C and in C++:
 *
 *     sw_exec_opts opts = SW_OPTS(sw_exec_opts, .threads = 2);
 *     sw_exec_opts opts = {}; opts.size = sizeof opts; opts.threads = 2; */
#ifndef STEPWELL_H
#define STEPWELL_H

#include "alloc/base/base.h"
#include "kernels/launch.h"

#ifdef __cplusplus
extern "C" {
#endif

#include "runtime/api/types.h"
#include "runtime/api/ranks.h"
#include "runtime/api/execs.h"
#include "runtime/api/models.h"
#include "runtime/api/tensor_ops.h"
#include "runtime/api/losses.h"
#include "runtime/api/layers.h"
#include "runtime/api/optimizers.h"
#include "runtime/api/steps.h"
#include "runtime/api/runs.h"
#include "runtime/api/data.h"
#include "runtime/api/members.h"
#include "runtime/api/state.h"
#include "runtime/api/profiles.h"
#include "runtime/api/pbt.h"
#include "runtime/api/evolution_strategies.h"
#include "runtime/api/architectures.h"
#include "runtime/api/architecture_search.h"
#include "runtime/api/extending.h"
#include "runtime/api/older_names.h"

#ifdef __cplusplus
}
#endif
#endif
