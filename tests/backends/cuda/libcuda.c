/* A driver without a GPU, for the tests: memory is the host's, and a launch runs one of a few
   kernels that are chosen by the name of the entry. Its parameters are the addresses of A, B and
   D, then M, N and K. The module's "machine code" is not looked at. What is put into a stream is
   done at once, or noted while a graph is captured. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

typedef int Result;
enum { OK = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, NO_DEVICE = 100, INVALID_IMAGE = 200,
       NOT_FOUND = 500, ILLEGAL_ADDRESS = 700, TOO_LARGE = 701 };

typedef struct { unsigned grid[3], block[3], smem; void *stream; void *attributes; unsigned count; } Config;

static char loaded; /* the only module */
static Result sticky = OK;
static int dynamic_smem = 0;

/* A setting is a file beside this library: a worker's environment is not the caller's. */
static long setting(const char *name, long otherwise) {
    Dl_info info;
    char path[4096];
    long value = otherwise;
    dladdr((void *)setting, &info);
    snprintf(path, sizeof path, "%.*s%s", (int)(strrchr(info.dli_fname, '/') + 1 - info.dli_fname),
             info.dli_fname, name);
    FILE *file = fopen(path, "r");
    if (file) {
        if (fscanf(file, "%ld", &value) != 1) value = otherwise;
        fclose(file);
    }
    return value;
}

Result cuInit(unsigned flags) { return setting("no-device", 0) ? NO_DEVICE : OK; }
Result cuDriverGetVersion(int *version) { *version = setting("cuda", 13000); return OK; }
Result cuDeviceGet(int *device, int ordinal) { *device = 0; return OK; }
Result cuDeviceGetName(char *name, int length, int device) { snprintf(name, length, "Fake GPU"); return OK; }
Result cuDeviceGetAttribute(int *value, int attribute, int device) {
    switch (attribute) {
    case 75: *value = setting("capability", 90) / 10; return OK;
    case 76: *value = setting("capability", 90) % 10; return OK;
    case 16: *value = 132; return OK;
    default: return INVALID_VALUE;
    }
}
Result cuDevicePrimaryCtxRetain(void **context, int device) { *context = &sticky; return OK; }
Result cuCtxSetCurrent(void *context) { return context == &sticky ? OK : INVALID_VALUE; }
Result cuMemGetInfo_v2(size_t *free, size_t *total) {
    *free = (size_t)setting("free-mib", 8192) << 20;
    *total = (size_t)16 << 30;
    return OK;
}
Result cuModuleLoadData(void **module, const void *image) {
    if (setting("bad-image", 0) || memcmp(image, "\177ELF", 4)) return INVALID_IMAGE;
    *module = &loaded;
    return OK;
}
Result cuModuleGetFunction(void **function, void *module, const char *name) {
    if (module != &loaded) return INVALID_VALUE;
    *function = strdup(name); /* a function is the name of its entry */
    return OK;
}
Result cuFuncSetAttribute(void *function, int attribute, int value) {
    if (!function || attribute != 8) return INVALID_VALUE;
    dynamic_smem = value;
    return OK;
}
Result cuMemAlloc_v2(uint64_t *address, size_t size) {
    if (sticky) return sticky;
    *address = (uint64_t)aligned_alloc(256, (size + 255) / 256 * 256);
    return *address ? OK : OUT_OF_MEMORY;
}
Result cuMemFree_v2(uint64_t address) { if (sticky) return sticky; free((void *)address); return OK; }
Result cuMemcpyHtoD_v2(uint64_t to, const void *from, size_t size) {
    if (sticky) return sticky;
    memcpy((void *)to, from, size);
    return OK;
}
Result cuMemcpyDtoH_v2(void *to, uint64_t from, size_t size) {
    if (sticky) return sticky;
    memcpy(to, (void *)from, size);
    return OK;
}
Result cuTensorMapEncodeTiled(void *map, int type, unsigned rank, void *address, const uint64_t *dims,
                              const uint64_t *strides, const uint32_t *box, const uint32_t *steps,
                              int interleave, int swizzle, int promotion, int fill) {
    if ((uintptr_t)map % 64 || (uintptr_t)address % 16 || type != 6 || rank != 2 || interleave)
        return INVALID_VALUE;
    uint64_t words[16] = {(uint64_t)address, dims[0], dims[1], strides[0], box[0], box[1], steps[0],
                          steps[1], swizzle, promotion, fill};
    memcpy(map, words, sizeof words);
    return OK;
}

/* C's float matrix product of fp16 inputs, D = A B^T. */
static void gemm(const _Float16 *a, const _Float16 *b, _Float16 *d, int m, int n, int k) {
    for (int row = 0; row < m; row++)
        for (int column = 0; column < n; column++) {
            float sum = 0;
            for (int i = 0; i < k; i++) sum += (float)a[row * k + i] * (float)b[column * k + i];
            d[(size_t)row * n + column] = (_Float16)sum;
        }
}

typedef struct { double at_ns; } Event;
typedef struct {
    enum { WRITE, FILL, RECORD, LAUNCH, CUBLAS } kind;
    uint32_t *words; uint32_t value; size_t count;
    Event *event;
    const char *entry; _Float16 *a, *b, *d; int m, n, k;
} Step;
typedef struct { Step steps[512]; int count; } Graph;

static Graph *captured = NULL;

static Result run(const Step *step) {
    _Float16 *a = step->a, *b = step->b, *d = step->d;
    int m = step->m, n = step->n, k = step->k;
    const char *entry = step->entry;
    struct timespec now;
    if (sticky) return OK; /* nothing runs after a fault; it is told to whoever waits */
    switch (step->kind) {
    case WRITE: *step->words = step->value; return OK;
    case FILL: for (size_t i = 0; i < step->count; i++) step->words[i] = step->value; return OK;
    case RECORD:
        clock_gettime(CLOCK_MONOTONIC, &now);
        step->event->at_ns = now.tv_sec * 1e9 + now.tv_nsec;
        return OK;
    case CUBLAS: gemm(a, b, d, m, n, k); return OK;
    case LAUNCH: break;
    }
    static int runs = 0, launches = 0;
    launches++;
    if (!strcmp(entry, "lazy")) return OK;
    gemm(a, b, d, m, n, k);
    if (!strcmp(entry, "noisy")) {
        if (runs++ % 2) ((uint16_t *)d)[3] ^= 1;
    } else if (!strcmp(entry, "wide")) {
        d[(size_t)m * n + 5] = 1;
    } else if (!strcmp(entry, "stray") || (!strcmp(entry, "late_stray") && launches > 4)) {
        sticky = ILLEGAL_ADDRESS;
    } else if (!strcmp(entry, "picky")) { /* faults on a NaN in A */
        for (int i = 0; i < m * k; i++) if (a[i] != a[i]) sticky = ILLEGAL_ADDRESS;
    } else if (!strcmp(entry, "stuck") || (!strcmp(entry, "late_stuck") && launches > 4)) {
        sleep(3600);
    } else if (!strcmp(entry, "crash")) {
        abort();
    }
    return OK;
}

static Result put(Step step) {
    if (sticky) return sticky;
    if (!captured) return run(&step);
    if (captured->count == 512) return OUT_OF_MEMORY;
    captured->steps[captured->count++] = step;
    return OK;
}

Result cuLaunchKernelEx(const Config *config, void *function, void **parameters, void **extra) {
    const char *entry = function;
    if (sticky) return sticky;
    if (!entry || extra) return INVALID_VALUE;
    if ((int)config->smem > dynamic_smem) return INVALID_VALUE;
    if (config->smem > 200000) return TOO_LARGE;
    if (!strcmp(entry, "mapped")) { /* its parameters are tensor maps: A, D */
        uint64_t *a = parameters[0], *d = parameters[1];
        const unsigned *cluster = (const unsigned *)((const char *)config->attributes + 8);
        if (config->count != 1 || cluster[0] != 2 || cluster[1] != 1 || cluster[2] != 1)
            return INVALID_VALUE;
        for (uint64_t row = 0; row < d[2]; row++) /* the first columns of A */
            memcpy((char *)d[0] + row * d[3], (char *)a[0] + row * a[3], d[1] * 2);
        return OK;
    }
    return put((Step){.kind = LAUNCH, .entry = entry, .a = *(_Float16 **)parameters[0],
                      .b = *(_Float16 **)parameters[1], .d = *(_Float16 **)parameters[2],
                      .m = *(int *)parameters[3], .n = *(int *)parameters[4],
                      .k = *(int *)parameters[5]});
}

/* What torch would have cuBLAS do: it is captured as all else is. */
Result stand_in_gemm(void *a, void *b, void *d, int m, int n, int k) {
    return put((Step){.kind = CUBLAS, .a = a, .b = b, .d = d, .m = m, .n = n, .k = k});
}

Result cuMemHostRegister_v2(void *address, size_t size, unsigned flags) {
    return flags == 2 && (uintptr_t)address % 4096 == 0 ? OK : INVALID_VALUE;
}
Result cuMemHostGetDevicePointer_v2(uint64_t *found, void *address, unsigned flags) {
    *found = (uint64_t)address;
    return OK;
}
Result cuStreamWriteValue32_v2(void *stream, uint64_t address, uint32_t value, unsigned flags) {
    return put((Step){.kind = WRITE, .words = (uint32_t *)address, .value = value});
}
Result cuMemsetD32Async(uint64_t address, unsigned value, size_t count, void *stream) {
    return put((Step){.kind = FILL, .words = (uint32_t *)address, .value = value, .count = count});
}
Result cuEventCreate(void **event, unsigned flags) {
    *event = calloc(1, sizeof(Event));
    return flags ? INVALID_VALUE : OK;
}
Result cuEventRecordWithFlags(void *event, void *stream, unsigned flags) {
    if (captured && flags != 1) return INVALID_VALUE; /* would be no part of the graph */
    return put((Step){.kind = RECORD, .event = event});
}
Result cuEventElapsedTime_v2(float *ms, void *begin, void *end) {
    *ms = (((Event *)end)->at_ns - ((Event *)begin)->at_ns) / 1e6;
    return ((Event *)begin)->at_ns > 0 ? OK : INVALID_VALUE;
}
Result cuStreamBeginCapture_v2(void *stream, int mode) {
    if (captured || !stream) return INVALID_VALUE;
    captured = calloc(1, sizeof(Graph));
    return OK;
}
Result cuStreamEndCapture(void *stream, void **graph) {
    *graph = captured;
    captured = NULL;
    return *graph ? OK : INVALID_VALUE;
}
Result cuGraphInstantiateWithFlags(void **exec, void *graph, uint64_t flags) {
    *exec = malloc(sizeof(Graph));
    memcpy(*exec, graph, sizeof(Graph));
    return OK;
}
Result cuGraphDestroy(void *graph) { free(graph); return OK; }
Result cuGraphExecDestroy(void *exec) { free(exec); return OK; }
Result cuGraphLaunch(void *exec, void *stream) {
    Graph *graph = exec;
    for (int i = 0; i < graph->count; i++) run(&graph->steps[i]);
    return OK;
}
Result cuStreamSynchronize(void *stream) { return captured ? INVALID_VALUE : sticky; }
Result cuCtxSynchronize(void) { return sticky; }

Result cuGetErrorString(Result error, const char **text) { *text = "words of the driver"; return OK; }
Result cuGetErrorName(Result error, const char **text) { *text = "NAME"; return OK; }

Result cuGetProcAddress_v2(const char *name, void **found, int version, uint64_t flags, int *status) {
    char versioned[128];
    Dl_info info;
    dladdr((void *)cuInit, &info);
    void *self = dlopen(info.dli_fname, RTLD_NOW);
    snprintf(versioned, sizeof versioned, "%s_v2", name);
    *found = dlsym(self, versioned);
    if (!*found) *found = dlsym(self, name);
    if (status) *status = *found ? 0 : 1;
    return *found ? OK : NOT_FOUND;
}
Result cuGetProcAddress(const char *name, void **found, int version, uint64_t flags) {
    return cuGetProcAddress_v2(name, found, version, flags, NULL);
}
