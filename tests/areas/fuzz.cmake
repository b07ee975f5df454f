# Fuzz targets as ordinary tests: their seeds, former findings, and mutations of these.
include(${CMAKE_CURRENT_LIST_DIR}/../fuzz/targets.cmake)
