# For `pip install .`: the torch beside which the package will stand is that of the interpreter that runs pip. In an isolated build
# pip hides it by PYTHONPATH, which -E ignores.
find_package(Python 3.9 REQUIRED COMPONENTS Interpreter)
execute_process(COMMAND ${Python_EXECUTABLE} -E -c "import torch; print(torch.utils.cmake_prefix_path)"
  OUTPUT_VARIABLE torch_prefix OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
if(failed)
  message(FATAL_ERROR "${Python_EXECUTABLE} has no torch; install it first (pip install torch==2.13.0, with "
    "--index-url https://download.pytorch.org/whl/cpu where there is no GPU), then quaver")
endif()
set(Torch_DIR ${torch_prefix}/Torch)
