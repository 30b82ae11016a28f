/* A driver without a GPU, for the tests: memory is the host's, and a launch runs one of a few
   kernels that are chosen by the name of the entry. Its parameters are the addresses of A, B and
   D, then M, N and K. The module's "machine code" is not looked at. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef int Result;
enum { OK = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, NO_DEVICE = 100, INVALID_IMAGE = 200,
       NOT_FOUND = 500, ILLEGAL_ADDRESS = 700, TOO_LARGE = 701 };

typedef struct { unsigned grid[3], block[3], smem; void *stream; void *attributes; unsigned count; } Config;

static char entry[256];
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
    *module = &entry;
    return OK;
}
Result cuModuleGetFunction(void **function, void *module, const char *name) {
    if (module != &entry) return INVALID_VALUE;
    snprintf(entry, sizeof entry, "%s", name);
    *function = entry;
    return OK;
}
Result cuFuncSetAttribute(void *function, int attribute, int value) {
    if (function != entry || attribute != 8) return INVALID_VALUE;
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

Result cuLaunchKernelEx(const Config *config, void *function, void **parameters, void **extra) {
    if (sticky) return sticky;
    if (function != entry || extra) return INVALID_VALUE;
    if ((int)config->smem > dynamic_smem || config->stream) return INVALID_VALUE;
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
    _Float16 *a = *(_Float16 **)parameters[0], *b = *(_Float16 **)parameters[1];
    _Float16 *d = *(_Float16 **)parameters[2];
    int m = *(int *)parameters[3], n = *(int *)parameters[4], k = *(int *)parameters[5];
    if (!strcmp(entry, "lazy")) return OK;
    gemm(a, b, d, m, n, k);
    if (!strcmp(entry, "noisy")) {
        static int runs = 0;
        if (runs++ % 2) ((uint16_t *)d)[3] ^= 1;
    } else if (!strcmp(entry, "wide")) {
        d[(size_t)m * n + 5] = 1;
    } else if (!strcmp(entry, "stray")) {
        sticky = ILLEGAL_ADDRESS;
    } else if (!strcmp(entry, "picky")) { /* faults on a NaN in A */
        for (int i = 0; i < m * k; i++) if (a[i] != a[i]) sticky = ILLEGAL_ADDRESS;
    } else if (!strcmp(entry, "stuck")) {
        sleep(3600);
    } else if (!strcmp(entry, "crash")) {
        abort();
    }
    return OK;
}
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
