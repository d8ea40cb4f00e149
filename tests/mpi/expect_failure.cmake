# Runs PROGRAM HOW COMM on 3 ranks, of which rank 1 fails. Expects a non-zero code, one line, and the end long before a
# rank that waits for ever would be noticed (it takes 0.4 to 2 s; the limit leaves room for a machine that is busy)
# from rank 1 (a killed process cannot write one; there mpirun's own message counts).
execute_process(COMMAND ${MPIEXEC} -np 3 --bind-to none ${PROGRAM} ${HOW} ${COMM}
                RESULT_VARIABLE code OUTPUT_VARIABLE out ERROR_VARIABLE err TIMEOUT 20)
if(NOT code MATCHES "^[0-9]+$" OR code EQUAL 0)
  message(FATAL_ERROR "${HOW}: expected an error code within 5 s, got '${code}'\n${out}${err}")
endif()
if(HOW MATCHES "^die")
  set(expected "exited on signal 9")
elseif(HOW STREQUAL "throw_on_all")
  set(expected "\\[rank [0-9]+\\] [^\n]*broken on purpose") # one report for all
else()
  set(expected "\\[rank 1\\] [^\n]*broken on purpose")
endif()
string(REGEX MATCHALL "${expected}" lines "${out}${err}")
list(LENGTH lines count)
if(NOT count EQUAL 1)
  message(FATAL_ERROR "${HOW}: expected one line matching '${expected}', got ${count}:\n${out}${err}")
endif()
message(STATUS "${HOW}: exit code ${code}, ${lines}")
