# seams - each outside library in one module, time and process exits in one place, and calls nobody may make.
include(${CMAKE_CURRENT_LIST_DIR}/common.cmake)

# included header|only below these paths
set(library_seams
  "jansson|^src/base/"
  "openssl/|^src/base/"
  "yaml|^src/config/"
  "archive|^src/archive/"
  "zlib|^src/archive/"
  "zstd|^src/archive/"
  "cblas|^src/compute/cpu/"
  "openblas|^src/compute/cpu/"
  "f77blas|^src/compute/cpu/"
  "libpq|^src/telemetry/"
  "curl/|^src/remote/"
  "cuda|^src/(compute/cuda|probe)/"
  "cupti|^src/(compute/cuda|probe)/"
  "cublas|^src/(compute/cuda|probe)/"
  "nvml|^src/compute/")

# called functions|only in these files|why
set(clock_calls "time|clock_gettime|gettimeofday|nanosleep|clock_nanosleep|sleep|usleep")
set(clock_calls "${clock_calls}|localtime|localtime_r|gmtime|gmtime_r|mktime|timegm|strftime|tzset")
set(ends "cli/|probe/|base/(error|json|process|process_fork)[.]c")
set(call_seams
  "${clock_calls}@^src/(base/clock[a-z_]*[.]c|probe/)@time comes from a Clock"
  "exit|_exit|_Exit|quick_exit|abort@^src/(${ends})@only cli ends the program"
  "setlocale|uselocale@^$@numbers are read and written in the C locale")
set(banned_calls
  "strcpy|strcat|sprintf|vsprintf|gets|strtok|atoi|atol|atoll|atof|system|popen|tmpnam|mktemp@^$@banned")

function(check_calls path seams)
  lint_code(${path} code)
  foreach(seam IN LISTS seams)
    string(REGEX MATCH "^([^@]*)@([^@]*)@(.*)$" line "${seam}")
    set(calls "${CMAKE_MATCH_1}")
    set(why "${CMAKE_MATCH_3}")
    if(path MATCHES "${CMAKE_MATCH_2}")
      continue()
    endif()
    # Not a member (x->exit) and not the tail of a longer name.
    string(REGEX MATCHALL "(^|[^A-Za-z0-9_.>])(${calls})[ ]*\\(" found "${code}")
    foreach(call IN LISTS found)
      string(REGEX REPLACE "^[^A-Za-z_]*([A-Za-z0-9_]+).*$" "\\1" call "${call}")
      lint_refuse("${path} calls ${call}: ${why}")
    endforeach()
  endforeach()
endfunction()

lint_sources(sources src include)
foreach(path IN LISTS sources)
  file(STRINGS ${SOURCE}/${path} includes REGEX "^[ \t]*#[ \t]*include[ \t]*<")
  foreach(include IN LISTS includes)
    foreach(seam IN LISTS library_seams)
      string(REPLACE "|" ";" seam "${seam}")
      list(GET seam 0 header)
      list(POP_FRONT seam)
      string(REPLACE ";" "|" folder "${seam}")
      if(include MATCHES "<${header}" AND NOT path MATCHES "${folder}")
        lint_refuse("${path} includes an outside library of another module: ${include}")
      endif()
    endforeach()
  endforeach()
  check_calls(${path} "${call_seams};${banned_calls}")
endforeach()

lint_sources(tests tests)
foreach(path IN LISTS tests)
  check_calls(${path} "${banned_calls}")
endforeach()

list(LENGTH sources count)
lint_end("seams: ${count} sources")
