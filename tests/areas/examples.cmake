# The examples of docs/howto, built as they would be in the tree, and tested.
set(EXAMPLES ${CMAKE_SOURCE_DIR}/docs/examples)
unity_test(test_examples SOURCES examples/backend_test.cpp examples/operator_test.cpp examples/strategy_test.cpp
  ${EXAMPLES}/operator/softplus.cpp ${EXAMPLES}/operator/softplus_kernel.cpp ${EXAMPLES}/strategy/some_devices.cpp
  support/ops_sharded.cpp
  DEPENDS unity_simulator unity_models unity_cpu nlohmann_json::nlohmann_json)
add_dependencies(test_examples unity)

add_library(unity_reference MODULE ${EXAMPLES}/backend/reference_backend.cpp)
set_target_properties(unity_reference PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/examples)
target_compile_options(unity_reference PRIVATE ${UNITY_WARNINGS})
target_link_libraries(unity_reference PRIVATE unity_runtime)
target_link_options(unity_reference PRIVATE -Wl,--exclude-libs,ALL -Wl,--no-undefined)
add_dependencies(test_examples unity_reference)

if(UNITY_GUI_FOUND)
  unity_test(test_example_panel SOURCES examples/panel_test.cpp ${EXAMPLES}/panel/panel.cpp ${EXAMPLES}/panel/view.cpp
    DEPENDS unity_gui_panels unity_models)
endif()
