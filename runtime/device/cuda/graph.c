/* Captures and graphs. */
#include "runtime/device/cuda/host.h"

struct sw_cuda_graph {
    cudaGraphExec_t exec;
    size_t nodes;
};

static cudaStream_t stream_of(const sw_cuda_queue *queue)
{
    return (cudaStream_t)queue->stream;
}

static pthread_mutex_t *lock_of(const sw_cuda_queue *queue)
{
    return &((sw_cuda_device *)queue->device)->capture_lock;
}

sw_status swi_cuda_capture_begin(const sw_cuda_queue *queue)
{
    if (pthread_mutex_lock(lock_of(queue)) != 0)
        SWI_CUDA_REFUSE(SW_INVALID, "this thread captures already");
    const cudaError_t error =
        cudaStreamBeginCapture(stream_of(queue), cudaStreamCaptureModeThreadLocal);
    if (error == cudaSuccess)
        return SW_OK;
    pthread_mutex_unlock(lock_of(queue));
    return swi_cuda_fail(error, "cudaStreamBeginCapture", "%s", "");
}

/* An executable graph, with what its first launch would do first done. */
static sw_status make(cudaGraph_t graph, const sw_cuda_queue *queue, sw_cuda_graph *out)
{
    size_t nodes = 0;
    cudaError_t error = cudaGraphGetNodes(graph, NULL, &nodes);
    if (error != cudaSuccess)
        return swi_cuda_fail(error, "cudaGraphGetNodes", "%s", "");
    error = cudaGraphInstantiate(&out->exec, graph, 0);
    if (error != cudaSuccess)
        return swi_cuda_fail(error, "cudaGraphInstantiate", "%zu nodes", nodes);
    error = cudaGraphUpload(out->exec, stream_of(queue));
    if (error != cudaSuccess) {
        (void)cudaGraphExecDestroy(out->exec);
        return swi_cuda_fail(error, "cudaGraphUpload", "%zu nodes", nodes);
    }
    out->nodes = nodes;
    return SW_OK;
}

sw_status swi_cuda_capture_end(const sw_cuda_queue *queue, sw_cuda_graph **out)
{
    cudaGraph_t graph = NULL;
    void *block;
    const cudaError_t error = cudaStreamEndCapture(stream_of(queue), &graph);
    if (pthread_mutex_unlock(lock_of(queue)) != 0 && error == cudaSuccess) {
        (void)cudaGraphDestroy(graph);
        SWI_CUDA_REFUSE(SW_INVALID, "another thread began this capture");
    }
    if (error != cudaSuccess && out == NULL) { /* thrown away, whatever became of it */
        (void)cudaGetLastError();
        return SW_OK;
    }
    if (error != cudaSuccess)
        return swi_cuda_fail(error, "cudaStreamEndCapture", "%s", "");
    sw_status status = SW_OK;
    if (out != NULL) {
        status = sw_cuda_its_host.alloc(&block, sizeof(sw_cuda_graph));
        if (status == SW_OK) {
            status = make(graph, queue, block);
            if (status == SW_OK)
                *out = block;
            else
                sw_cuda_its_host.free(block, sizeof(sw_cuda_graph));
        }
    }
    (void)cudaGraphDestroy(graph);
    return status;
}

sw_status swi_cuda_graph_launch(sw_cuda_graph *graph, const sw_cuda_queue *queue)
{
    const cudaError_t error = cudaGraphLaunch(graph->exec, stream_of(queue));
    return error == cudaSuccess
               ? SW_OK
               : swi_cuda_fail(error, "cudaGraphLaunch", "%zu nodes", graph->nodes);
}

size_t swi_cuda_graph_nodes(const sw_cuda_graph *graph)
{
    return graph->nodes;
}

void swi_cuda_graph_destroy(sw_cuda_graph *graph)
{
    if (graph == NULL)
        return;
    (void)cudaGraphExecDestroy(graph->exec);
    (void)cudaGetLastError();
    sw_cuda_its_host.free(graph, sizeof *graph);
}
