# Several processes started by mpirun and srun. Quick parts only; tests/cluster/README.md says what else there is.
if(TARGET unity_mpi)
  add_executable(collective_times cluster/collective_times.cpp)
  target_include_directories(collective_times PRIVATE ${CMAKE_SOURCE_DIR})
  target_compile_options(collective_times PRIVATE ${UNITY_WARNINGS})
  target_link_libraries(collective_times PRIVATE unity_runtime unity_simulator nlohmann_json::nlohmann_json)
endif()
find_package(Python3 QUIET COMPONENTS Interpreter)
foreach(name cluster_check mpi_equal mpi_faults mpi_logs mpi_profile slurm)
  if(Python3_FOUND)
    add_test(NAME "cluster: ${name}" COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/../cluster/${name} --quick
      --build ${CMAKE_BINARY_DIR})
    # 77: mpirun, the plug-in or Slurm is missing; the output says which.
    set_tests_properties("cluster: ${name}" PROPERTIES LABELS cluster SKIP_RETURN_CODE 77 TIMEOUT 300 RUN_SERIAL ON ${UNITY_MAY_LEAK})
  endif()
endforeach()
if(Python3_FOUND)
  add_test(NAME "cluster: what cluster_check makes of what it launches" COMMAND ${Python3_EXECUTABLE}
    ${CMAKE_CURRENT_LIST_DIR}/../cluster/cluster_check_test.py)
  set_tests_properties("cluster: what cluster_check makes of what it launches" PROPERTIES LABELS cluster)
endif()
