# Debian packages by `cpack -G DEB` (scripts/package): what a package needs is read off its programs by dpkg-shlibdeps.
# unity-testbed, since a desktop is called unity.
set(CPACK_PACKAGE_NAME unity-testbed)
set(CPACK_PACKAGE_VENDOR "The Unity developers")
set(CPACK_PACKAGE_CONTACT "The Unity developers <unity-testbed@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "${PROJECT_DESCRIPTION}")
set(CPACK_PACKAGE_DIRECTORY ${CMAKE_BINARY_DIR}/packages)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_THREADS 0)
set(CPACK_COMPONENTS_ALL command development)
foreach(part gui mpi cuda)
  if((part STREQUAL gui AND TARGET unity-gui) OR TARGET unity_${part})
    list(APPEND CPACK_COMPONENTS_ALL ${part})
  endif()
endforeach()

set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_ENABLE_COMPONENT_DEPENDS OFF)
set(this "(= ${PROJECT_VERSION})")

set(CPACK_DEBIAN_COMMAND_PACKAGE_NAME unity-testbed)
set(CPACK_COMPONENT_COMMAND_DESCRIPTION
  "The unity command: finds, explains, predicts and runs parallel plans for training neural networks.")
set(CPACK_DEBIAN_COMMAND_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_COMMAND_PACKAGE_RECOMMENDS "graphviz")
set(CPACK_DEBIAN_COMMAND_PACKAGE_SUGGESTS "unity-testbed-gui, unity-testbed-mpi, unity-testbed-dev, bash-completion")

set(CPACK_DEBIAN_GUI_PACKAGE_NAME unity-testbed-gui)
set(CPACK_COMPONENT_GUI_DESCRIPTION "The window of Unity: graphs, machines, mappings, timelines, searches and experiments.")
set(CPACK_DEBIAN_GUI_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_GUI_PACKAGE_DEPENDS
  "unity-testbed ${this}, fonts-roboto-unhinted, fonts-jetbrains-mono, fonts-font-awesome")

set(CPACK_DEBIAN_MPI_PACKAGE_NAME unity-testbed-mpi)
set(CPACK_COMPONENT_MPI_DESCRIPTION "MPI between the processes of unity run --comm mpi.")
set(CPACK_DEBIAN_MPI_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_MPI_PACKAGE_DEPENDS "unity-testbed ${this}, openmpi-bin")

# NVIDIA's libraries are not Debian's: cuDNN, cuBLAS and NCCL are named by hand, as in NVIDIA's repository.
string(REGEX MATCH "^[0-9]+" cuda_major "${CUDAToolkit_VERSION}")
string(REPLACE "." "-" cuda_minor "${CUDAToolkit_VERSION_MAJOR}.${CUDAToolkit_VERSION_MINOR}")
set(CPACK_DEBIAN_CUDA_PACKAGE_NAME unity-testbed-cuda)
set(CPACK_COMPONENT_CUDA_DESCRIPTION "The CUDA backend of unity run --backend cuda.")
set(CPACK_DEBIAN_CUDA_PACKAGE_SHLIBDEPS OFF)
set(CPACK_DEBIAN_CUDA_PACKAGE_DEPENDS
  "unity-testbed ${this}, libc6, libstdc++6, libcublas-${cuda_minor}, libcudnn9-cuda-${cuda_major}, libnccl2")

set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_NAME unity-testbed-dev)
set(CPACK_COMPONENT_DEVELOPMENT_DESCRIPTION "Core and simulator of Unity as a library: find_package(Unity) of CMake.")
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS
  "unity-testbed ${this}, libabsl-dev (>= 20220623), libfmt-dev (>= 9), libyaml-cpp-dev, nlohmann-json3-dev (>= 3.10), zlib1g-dev")
if(UNITY_TINYXML2_FOUND)
  string(APPEND CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS ", libtinyxml2-dev")
endif()
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SUGGESTS "libz3-dev, libonnx-dev, libprotobuf-dev, pkg-config")
include(CPack)
