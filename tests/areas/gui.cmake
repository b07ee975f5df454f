# The GUI without a window: what panels prepare, documents and their edits; then the program itself, where EGL gives it
# something to draw in.
if(UNITY_GUI_FOUND)
  file(GLOB GUI_TESTS CONFIGURE_DEPENDS gui/*_test.cpp)
  unity_test(test_gui SOURCES ${GUI_TESTS} DEPENDS unity_gui_app nlohmann_json::nlohmann_json)
  add_dependencies(test_gui unity-gui)
endif()
