# form - lines of at most 110 columns, first lines that say what a file is for, wording of messages, nothing
# of the machine it was written on.
include(${CMAKE_CURRENT_LIST_DIR}/common.cmake)

string(REPEAT "." 111 too_long)
lint_sources(sources src include tests)
foreach(path IN LISTS sources)
  file(STRINGS ${SOURCE}/${path} long REGEX "^${too_long}" ENCODING UTF-8)
  if(long)
    list(LENGTH long count)
    string(SUBSTRING "${long}" 0 60 first)
    lint_refuse("${path} has ${count} line(s) longer than 110 columns: ${first}...")
  endif()
  file(READ ${SOURCE}/${path} text)
  if(NOT text MATCHES "^// [a-z0-9_./-]+( - |\n)")
    lint_refuse("${path} does not begin with '// name - what it is for'")
  endif()
  if(text MATCHES "TODO" AND NOT text MATCHES "TODO\\(#[0-9]+\\)")
    lint_refuse("${path} has a TODO without an issue number")
  endif()
  # Messages: lower case first (a word all in small letters after its first), no full stop at the end.
  string(REGEX MATCHALL "FAIL\\([^\"\n;]*\n?[^\"\n;]*\"[^\"\n]*\"" messages "${text}")
  foreach(message IN LISTS messages)
    string(REGEX MATCH "\"[^\"]*\"$" message "${message}")
    if(message MATCHES "^\"[A-Z][a-z]+[ ,:\"]" OR message MATCHES "[^.][.]\"$")
      lint_refuse("${path} has a message that is capitalised or ends in a full stop: ${message}")
    endif()
  endforeach()
endforeach()

file(GLOB_RECURSE texts RELATIVE ${SOURCE}
  ${SOURCE}/src/* ${SOURCE}/include/* ${SOURCE}/tests/* ${SOURCE}/ops/* ${SOURCE}/migrations/*
  ${SOURCE}/fixtures/*.yaml ${SOURCE}/fixtures/*.md ${SOURCE}/*.md ${SOURCE}/CMakeLists.txt)
foreach(path IN LISTS texts)
  file(STRINGS ${SOURCE}/${path} found REGEX "(/wor[k]/|/home/[a-z]+/|/roo[t]/)" LIMIT_COUNT 1)
  if(found)
    lint_refuse("${path} names a folder of one machine: ${found}")
  endif()
endforeach()

list(LENGTH sources count)
lint_end("form: ${count} sources")
