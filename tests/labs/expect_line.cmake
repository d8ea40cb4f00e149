# Runs PROGRAM with FLAGS on RANKS ranks. Expects exit code CODE and exactly one line that matches LINE.
execute_process(COMMAND ${MPIEXEC} -np ${RANKS} --bind-to none ${PROGRAM} ${FLAGS}
                RESULT_VARIABLE code OUTPUT_VARIABLE out ERROR_VARIABLE err TIMEOUT 30)
if(NOT code STREQUAL CODE)
  message(FATAL_ERROR "expected exit code ${CODE}, got '${code}'\n${out}${err}")
endif()
string(REPLACE ";" "," text "${out}${err}") # or CMake would cut a line there
string(REPLACE "[" "." text "${text}")      # or CMake would take what is in brackets for one item
string(REPLACE "]" "." text "${text}")
string(REGEX MATCHALL "[^\n]+" lines "${text}")
list(FILTER lines INCLUDE REGEX "${LINE}")
list(LENGTH lines count)
if(NOT count EQUAL 1)
  message(FATAL_ERROR "expected one line matching '${LINE}', got ${count}:\n${out}${err}")
endif()
message(STATUS "${lines}")
