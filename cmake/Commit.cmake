# Writes FILE, a header with the commit of the sources, when that changed: cmake -DSOURCE=.. -DFILE=.. -P Commit.cmake
# "unknown" where the sources are not a git checkout.
set(commit unknown)
execute_process(COMMAND git -C ${SOURCE} rev-parse --show-toplevel OUTPUT_VARIABLE top OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
get_filename_component(real ${SOURCE} REALPATH)
if(top STREQUAL real)  # not those of another program that contains these sources
  execute_process(COMMAND git -C ${SOURCE} describe --always --dirty --abbrev=12 --exclude=*
    OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
endif()
set(text "#define UNITY_COMMIT \"${commit}\"\n")
set(before "")
if(EXISTS ${FILE})
  file(READ ${FILE} before)
endif()
if(NOT text STREQUAL before)
  file(WRITE ${FILE} "${text}")
endif()
