# selftest - every lint is seen to refuse: a small clean project passes, the same with one bad file does not.
#
# Run as: cmake -DSCRATCH=<folder to use> -P tests/lint/selftest.cmake
cmake_minimum_required(VERSION 3.25)
set(lints ${CMAKE_CURRENT_LIST_DIR})

function(write_clean_project)
  file(REMOVE_RECURSE ${SCRATCH})
  file(WRITE ${SCRATCH}/modules.txt "low|low.h|\nhigh|high.h|low\nbase|base.h|\n")
  file(WRITE ${SCRATCH}/tests.txt "low_test|unit|low\nall_test|integration|high;base\n")
  foreach(module low high base)
    file(WRITE ${SCRATCH}/include/fedgate/${module}.h "// ${module}.h - part of a clean project.\nint ${module}_do(void);\n")
    file(WRITE ${SCRATCH}/src/${module}/${module}.c "// ${module} - part of a clean project.\n#include <fedgate/${module}.h>\n")
  endforeach()
  file(APPEND ${SCRATCH}/src/high/high.c "#include <fedgate/low.h>\n#include \"high_internal.h\"\n#include <string.h>\n"
    "// never calls strcpy() or time()\nconst char *s = \"system(1); exit(2)\"; int x = a->abort(1) + my_exit(2);\n")
  file(WRITE ${SCRATCH}/src/base/clock.c "// clock - may read the time.\nint x = clock_gettime(1, 2);\n")
  file(WRITE ${SCRATCH}/src/base/json.c "// json - may include jansson.\n#include <jansson.h>\n")
  file(WRITE ${SCRATCH}/src/cli/main.c "// main - may use all and exit.\n#include <fedgate/high.h>\nint main(void) { exit(1); }\n")
endfunction()

# Sets ret_status and ret_output of one lint on the scratch project.
macro(run_lint lint)
  execute_process(COMMAND ${CMAKE_COMMAND} -DSOURCE=${SCRATCH} -DBUILD=${SCRATCH} -P ${lints}/${lint}.cmake
    RESULT_VARIABLE ret_status OUTPUT_VARIABLE ret_output ERROR_VARIABLE ret_output)
  string(REGEX REPLACE "[ \n]+" " " ret_output "${ret_output}")   # cmake wraps long lines
endmacro()

write_clean_project()
foreach(lint layers seams coverage form)
  run_lint(${lint})
  if(NOT ret_status EQUAL 0)
    message(FATAL_ERROR "${lint} refuses a clean project: ${ret_output}")
  endif()
endforeach()

# lint ^ file to add ^ its content ^ words of the refusal
string(REPEAT "x" 120 long)
set(cases
  "layers^src/low/bad.c^// bad - uses upwards.\n#include <fedgate/high.h>\n^does not use 'high'"
  "layers^src/low/deep/bad.h^// bad - uses upwards.\n#include <fedgate/high.h>\n^'low' does not use 'high'"
  "layers^src/low/bad.c^// bad - no such module.\n#include \"../high/high_internal.h\"\n^reaches out of its module"
  "layers^src/utils/bad.c^// bad - a folder outside.\n^belongs to no module"
  "layers^include/fedgate/stray.h^// stray.h - nobody's.\n^is the header of no module"
  "layers^include/fedgate/low.h^// low.h - uses upwards.\n#include <fedgate/high.h>\n^does not use 'high'"
  "seams^src/low/bad.c^// bad\n#include <jansson.h>\n^outside library of another module"
  "seams^src/low/bad.c^// bad\n#include <openssl/evp.h>\n^outside library of another module"
  "seams^src/low/bad.c^// bad\n#include <libpq-fe.h>\n^outside library of another module"
  "seams^src/compute/device.c^// bad\n#include <cblas.h>\n^outside library of another module"
  "seams^src/low/bad.c^// bad\n#include <curl/curl.h>\n^outside library of another module"
  "seams^src/low/bad.c^// bad\n#include <archive.h>\n^outside library of another module"
  "seams^src/low/bad.c^// bad\n#include <cuda_runtime.h>\n^outside library of another module"
  "seams^src/low/bad.c^// bad\nint x = time(0)\n^calls time: time comes from a Clock"
  "seams^src/base/file.c^// bad\nint x = clock_gettime (1, 2)\n^calls clock_gettime"
  "seams^src/low/bad.c^// bad\nint x = (usleep(1))\n^calls usleep"
  "seams^src/low/bad.c^// bad\nint x = 1 + abort()\n^calls abort: only cli ends the program"
  "seams^src/low/bad.c^// bad\nint x = setlocale(1, 2)\n^calls setlocale"
  "seams^src/low/bad.c^// bad\nint x = strcpy(a, b)\n^calls strcpy: banned"
  "seams^src/low/bad.c^// bad\nchar q = '\"' + atoi(b)\n^calls atoi: banned"
  "seams^tests/unit/bad_test.c^// bad\nint x = system(a)\n^calls system: banned"
  "coverage^modules.txt^low|low.h|\nbare|bare.h|low\n^module 'bare' is covered by no test"
  "form^src/low/bad.c^// bad - a long line.\nint ${long}\n^1 line(s) longer than 110 columns"
  "form^src/low/bad.c^int x\n^does not begin with"
  "form^src/low/bad.c^// bad - waits.\n// TO${empty}DO later\n^TODO without an issue number"
  "form^src/low/bad.c^// bad - words.\nreturn FAIL(error, ERROR_IO, 0, \"Could not open\")\n^capitalised or ends in a full stop"
  "form^src/low/bad.c^// bad - words.\nreturn FAIL(error, ERROR_IO, 0,\n  \"could not open.\")\n^capitalised or ends in a full stop"
  "form^ops/bad^cd /ho${empty}me/somebody/fedgate\n^names a folder of one machine")
foreach(case IN LISTS cases)
  string(REPLACE "^" ";" case "${case}")
  list(GET case 0 lint)
  list(GET case 1 path)
  list(GET case 2 content)
  list(GET case 3 words)
  write_clean_project()
  file(WRITE ${SCRATCH}/${path} "${content}")
  run_lint(${lint})
  if(ret_status EQUAL 0)
    message(FATAL_ERROR "${lint} passed ${path}, a refusal was expected: ${words}")
  endif()
  string(FIND "${ret_output}" "${words}" at)
  if(at EQUAL -1)
    message(FATAL_ERROR "${lint} refused ${path} without saying '${words}': ${ret_output}")
  endif()
endforeach()
file(REMOVE_RECURSE ${SCRATCH})
list(LENGTH cases count)
message(STATUS "selftest: ${count} bad projects refused")
