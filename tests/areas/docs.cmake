# The documentation: what it names exists, what it says to type works, what it says is printed is printed.
unity_test(test_docs SOURCES docs/documents.cpp docs/documents_test.cpp docs/formats_test.cpp docs/tutorial_test.cpp
  DEPENDS nlohmann_json::nlohmann_json PROPERTIES ${UNITY_MAY_LEAK})
add_dependencies(test_docs unity)
if(TARGET unity_mpi)
  add_dependencies(test_docs unity_mpi)
endif()
