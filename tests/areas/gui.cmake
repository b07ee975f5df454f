# The GUI without a window: what panels prepare, documents and their edits; then the program itself, where EGL gives it
# something to draw in.
if(UNITY_GUI_FOUND)
  file(GLOB GUI_TESTS CONFIGURE_DEPENDS gui/*_test.cpp)
  add_executable(test_gui ${GUI_TESTS})
  target_include_directories(test_gui PRIVATE ${CMAKE_SOURCE_DIR})
  target_compile_options(test_gui PRIVATE ${UNITY_WARNINGS})
  target_link_libraries(test_gui PRIVATE unity_gui_app nlohmann_json::nlohmann_json unity_test_main)
  add_dependencies(test_gui unity-gui)
  if(TARGET unity_onnx)
    target_compile_definitions(test_gui PRIVATE UNITY_HAS_ONNX)
  endif()
  catch_discover_tests(test_gui WORKING_DIRECTORY ${CMAKE_SOURCE_DIR} TEST_PREFIX "test_gui: "
    PROPERTIES SKIP_REGULAR_EXPRESSION "skipped: " ${UNITY_MAY_LEAK})
endif()
