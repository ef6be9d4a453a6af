# coverage - every module is claimed by at least one test (COVERS in tests/CMakeLists.txt).
include(${CMAKE_CURRENT_LIST_DIR}/common.cmake)

set(covered "")
file(READ ${BUILD}/tests.txt tests)   # one line a test, name|kind|module;module
string(REGEX REPLACE "[^|\n]*\\|[^|\n]*\\|([^\n]*)\n" "\\1;" covered "${tests}")

file(STRINGS ${BUILD}/modules.txt modules)
foreach(module IN LISTS modules)
  string(REGEX REPLACE "\\|.*$" "" name "${module}")
  if(NOT name IN_LIST covered)
    lint_refuse("module '${name}' is covered by no test")
  endif()
endforeach()

list(LENGTH modules count)
lint_end("coverage: ${count} modules")
