// As much of CUDA's driver as cuDNN asks for while it compiles the kernels of a plan for a described device: a library
// libcuda.so.1 that says yes to everything, with handles that nothing looks into. Nothing can run on it. Without
// <cuda.h>, which renames functions to their newer versions.
#include <cstddef>
#include <cstdint>

namespace {

int give(void** handle) { return *handle = reinterpret_cast<void*>(std::uintptr_t{64}), 0; }
constexpr int kNotFound = 500;

}  // namespace

extern "C" {

int cuInit(unsigned) { return 0; }
int cuDriverGetVersion(int* version) { return *version = 13000, 0; }
int cuDeviceGetCount(int* count) { return *count = 1, 0; }
int cuDeviceGet(int* device, int) { return *device = 0, 0; }
// Compute capability 9.0 with 132 multiprocessors; whatever else is asked for: 1.
int cuDeviceGetAttribute(int* value, int attribute, int) {
  return *value = attribute == 75 ? 9 : attribute == 76 ? 0 : attribute == 16 ? 132 : 1, 0;
}
int cuCtxGetCurrent(void** context) { return give(context); }
int cuCtxGetDevice(int* device) { return *device = 0, 0; }
int cuDevicePrimaryCtxRetain(void** context, int) { return give(context); }
int cuGetErrorName(int, const char** name) { return *name = "an error of the fake", 0; }
int cuGetErrorString(int, const char** text) { return *text = "an error of the fake", 0; }
int cuGetExportTable(const void** table, const void*) { return *table = nullptr, kNotFound; }
int cuLibraryLoadData(void** library, const void*, void*, void*, unsigned, void*, void*, unsigned) {
  return give(library);
}
int cuLibraryGetKernel(void** kernel, void*, const char*) { return give(kernel); }
int cuModuleLoadData(void** module, const void*) { return give(module); }
int cuModuleLoadDataEx(void** module, const void*, unsigned, void*, void*) { return give(module); }
int cuModuleGetFunction(void** function, void*, const char*) { return give(function); }
// As many threads to a block as any device allows; of all other things none.
int cuFuncGetAttribute(int* value, int attribute, void*) { return *value = attribute == 0 ? 1024 : 0, 0; }
int cuKernelGetAttribute(int* value, int attribute, void*, int) { return *value = attribute == 0 ? 1024 : 0, 0; }
int cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, void*, int, std::size_t) { return *blocks = 2, 0; }

#define UNITY_FAKE(name) \
  int name() { return 0; }
UNITY_FAKE(cuCtxGetLimit)
UNITY_FAKE(cuCtxPopCurrent)
UNITY_FAKE(cuCtxPushCurrent)
UNITY_FAKE(cuDevicePrimaryCtxRelease)
UNITY_FAKE(cuDevicePrimaryCtxReset)
UNITY_FAKE(cuFuncSetAttribute)
UNITY_FAKE(cuKernelSetAttribute)
UNITY_FAKE(cuLaunchCooperativeKernel)
UNITY_FAKE(cuLaunchKernel)
UNITY_FAKE(cuLaunchKernelEx)
UNITY_FAKE(cuLibraryLoadFromFile)
UNITY_FAKE(cuLibraryUnload)
UNITY_FAKE(cuLinkAddData)
UNITY_FAKE(cuLinkAddData_v2)
UNITY_FAKE(cuLinkAddFile_v2)
UNITY_FAKE(cuLinkComplete)
UNITY_FAKE(cuLinkCreate)
UNITY_FAKE(cuLinkCreate_v2)
UNITY_FAKE(cuLinkDestroy)
UNITY_FAKE(cuMemcpyDtoH_v2)
UNITY_FAKE(cuModuleGetGlobal_v2)
UNITY_FAKE(cuModuleLoadFatBinary)
UNITY_FAKE(cuModuleUnload)
UNITY_FAKE(cuOccupancyMaxPotentialClusterSize)
UNITY_FAKE(cuStreamGetCtx)
UNITY_FAKE(cuStreamSynchronize)
UNITY_FAKE(cuTensorMapEncodeTiled)
#undef UNITY_FAKE
}
