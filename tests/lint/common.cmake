# common - what every lint shares: arguments, the list of sources, and refusing with all reasons at once.
#
# Run as: cmake -DSOURCE=<project> [-DBUILD=<build folder>] -P tests/lint/<lint>.cmake
cmake_minimum_required(VERSION 3.25)
if(NOT SOURCE)
  message(FATAL_ERROR "SOURCE names the project folder")
endif()

# Paths of C sources below the named folders, relative to SOURCE.
function(lint_sources result)
  set(patterns "")
  foreach(folder IN LISTS ARGN)
    list(APPEND patterns ${SOURCE}/${folder}/*.c ${SOURCE}/${folder}/*.h ${SOURCE}/${folder}/*.cu)
  endforeach()
  file(GLOB_RECURSE found RELATIVE ${SOURCE} ${patterns})
  set(${result} ${found} PARENT_SCOPE)
endfunction()

# The file without string literals and comments, so that only code is left to match.
function(lint_code path result)
  file(READ ${SOURCE}/${path} text)
  string(REGEX REPLACE "'\\\\?\"'" "''" text "${text}")
  string(REGEX REPLACE "\"([^\"\\\\\n]|\\\\.)*\"" "\"\"" text "${text}")
  string(REGEX REPLACE "//[^\n]*" "" text "${text}")
  string(REGEX REPLACE "/\\*([^*]|\\*+[^*/])*\\*+/" "" text "${text}")
  set(${result} "${text}" PARENT_SCOPE)
endfunction()

set_property(GLOBAL PROPERTY lint_reasons "")

function(lint_refuse reason)
  set_property(GLOBAL APPEND_STRING PROPERTY lint_reasons "  ${reason}\n")
endfunction()

# Fails with every reason; without one says what was looked at.
function(lint_end looked_at)
  get_property(reasons GLOBAL PROPERTY lint_reasons)
  if(reasons)
    message(FATAL_ERROR "lint refuses:\n${reasons}")
  endif()
  message(STATUS "${looked_at}")
endfunction()
