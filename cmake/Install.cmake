# What `cmake --install` puts where, below any prefix:
#   bin/                   unity, unity-gui
#   lib/unity/             the plug-ins, which unity looks for beside its own folder
#   share/unity/           topologies, data, rules (as text), models, experiments: found from where unity is, so all may be moved
#   share/doc/unity-testbed/, shell completion where bash, zsh and fish look for it
#   include/unity/, lib*/  core and the simulator as a library, with lib*/cmake/Unity for find_package(Unity)
# Components: command, gui, mpi, cuda, development (a Debian package each: Package.cmake).
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
set(CMAKE_SKIP_INSTALL_ALL_DEPENDENCY ON)  # installs and packs what is built

install(TARGETS unity RUNTIME DESTINATION bin COMPONENT command)
if(TARGET unity-gui)
  install(TARGETS unity-gui RUNTIME DESTINATION bin COMPONENT gui)
endif()
foreach(part mpi cuda)
  if(TARGET unity_${part})
    set_target_properties(unity_${part} PROPERTIES INSTALL_RPATH_USE_LINK_PATH ON)
    install(TARGETS unity_${part} LIBRARY DESTINATION lib/unity COMPONENT ${part})
  endif()
endforeach()

set(UNITY_SHARE share/unity)
install(DIRECTORY topologies DESTINATION ${UNITY_SHARE} COMPONENT command)
install(DIRECTORY core/rewrite/rules DESTINATION ${UNITY_SHARE} COMPONENT command)
install(DIRECTORY experiments/models DESTINATION ${UNITY_SHARE} COMPONENT command)
file(GLOB UNITY_EXPERIMENTS RELATIVE ${CMAKE_SOURCE_DIR} CONFIGURE_DEPENDS experiments/*/experiment.yaml)
foreach(file ${UNITY_EXPERIMENTS})
  get_filename_component(folder ${file} DIRECTORY)
  install(FILES ${file} DESTINATION ${UNITY_SHARE}/${folder} COMPONENT command)
endforeach()
install(FILES runtime/data/files/digits.csv.gz DESTINATION ${UNITY_SHARE}/data COMPONENT command)
install(FILES README.md DESTINATION share/doc/unity-testbed COMPONENT command)
install(DIRECTORY docs DESTINATION share/doc/unity-testbed COMPONENT command)

# Scripts that ask `unity` itself what may stand at the cursor: the same definitions as --help.
set(UNITY_COMPLETION ${CMAKE_BINARY_DIR}/completion)
file(MAKE_DIRECTORY ${UNITY_COMPLETION})
foreach(shell bash zsh fish)
  add_custom_command(OUTPUT ${UNITY_COMPLETION}/unity.${shell} COMMAND unity completion ${shell} > ${UNITY_COMPLETION}/unity.${shell}
    DEPENDS unity)
endforeach()
add_custom_target(unity_completion ALL
  DEPENDS ${UNITY_COMPLETION}/unity.bash ${UNITY_COMPLETION}/unity.zsh ${UNITY_COMPLETION}/unity.fish)
install(FILES ${UNITY_COMPLETION}/unity.bash DESTINATION share/bash-completion/completions RENAME unity COMPONENT command)
install(FILES ${UNITY_COMPLETION}/unity.zsh DESTINATION share/zsh/vendor-completions RENAME _unity COMPONENT command)
install(FILES ${UNITY_COMPLETION}/unity.fish DESTINATION share/fish/vendor_completions.d COMPONENT command)

# The library. What needs a library of its own is a component: find_package(Unity COMPONENTS verify onnx chakra).
set(UNITY_ROOMS base ops graph machine rewrite trace plan search models report generate machine_import rule_import simulator)
add_library(unity_core INTERFACE)
target_include_directories(unity_core INTERFACE $<INSTALL_INTERFACE:include/unity>)
target_link_libraries(unity_core INTERFACE unity_search unity_models unity_report unity_generate)
foreach(room ${UNITY_ROOMS} verify onnx chakra)
  if(TARGET unity_${room})
    set_target_properties(unity_${room} PROPERTIES EXPORT_NAME ${room})
    set(set UnityTargets)
    if(room MATCHES "^(verify|onnx|chakra)$")
      set(set Unity_${room})
      install(EXPORT ${set} NAMESPACE Unity:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/Unity COMPONENT development)
    endif()
    install(TARGETS unity_${room} EXPORT ${set} ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT development
      INCLUDES DESTINATION include/unity)
  endif()
endforeach()
set_property(TARGET unity_base APPEND PROPERTY INTERFACE_COMPILE_FEATURES $<INSTALL_INTERFACE:cxx_std_20>)
set_target_properties(unity_core PROPERTIES EXPORT_NAME core)
install(TARGETS unity_core EXPORT UnityTargets COMPONENT development)
install(EXPORT UnityTargets NAMESPACE Unity:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/Unity COMPONENT development)
install(DIRECTORY core simulator DESTINATION include/unity COMPONENT development
  FILES_MATCHING PATTERN "*.h" PATTERN "*.def" PATTERN "rules" EXCLUDE)

configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/UnityConfig.cmake.in ${CMAKE_BINARY_DIR}/cmake/UnityConfig.cmake
  INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/Unity)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/cmake/UnityConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/cmake/UnityConfig.cmake ${CMAKE_BINARY_DIR}/cmake/UnityConfigVersion.cmake
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/Unity COMPONENT development)
