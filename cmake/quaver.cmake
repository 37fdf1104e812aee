# quaver_library, quaver_test and the compiler settings that all targets share.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()

# quaver_together(TARGET): several of its files at a time, since their headers take longer to read than they do themselves.
# So names in anonymous namespaces differ within a folder. Off gives one command per file, as editors want.
option(QUAVER_UNITY "Compile files that share slow headers together" ON)
function(quaver_together target)
  set_target_properties(${target} PROPERTIES UNITY_BUILD ${QUAVER_UNITY} UNITY_BUILD_BATCH_SIZE 4)
endfunction()

find_program(CCACHE ccache)
if(CCACHE)
  # Without these ccache does not cache files that use a precompiled header.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros ${CCACHE})
endif()
# Not lld: version 14 (Debian 12) breaks the unwinding of functions that GCC splits into hot and cold parts, so that
# an exception on its way to a handler aborts the program.

add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra;-Wshadow;-Wno-missing-field-initializers>")
add_compile_options("$<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Wall>")
# Errors where continuous integration sees them first; later compilers have new warnings, false ones among them, and must
# not stop whoever builds with them.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:-Werror>")
endif()
if(QUAVER_SANITIZE)
  add_compile_options(-fsanitize=${QUAVER_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all -g1)
  add_link_options(-fsanitize=${QUAVER_SANITIZE})
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # Instrumented code confuses GCC's flow analysis: it then warns inside Boost's and the standard library's headers.
    # And it warns that the thread sanitizer does not follow Asio's fences, which stand beside a mutex.
    add_compile_options(-Wno-maybe-uninitialized -Wno-tsan)
  endif()
endif()

# Instruction sets are per file, by the file's name: only code reached through a run-time check may use them.
function(quaver_isa_flags)
  foreach(source ${ARGN})
    if(source MATCHES "_avx2\\.cc$")
      set_source_files_properties(${source} PROPERTIES COMPILE_OPTIONS "-mavx2;-mfma;-mf16c")
    elseif(source MATCHES "_avx512\\.cc$")
      set_source_files_properties(${source} PROPERTIES COMPILE_OPTIONS
        "-mavx2;-mfma;-mf16c;-mavx512f;-mavx512bw;-mavx512dq;-mavx512vl;-mprefer-vector-width=512")
    elseif(source MATCHES "_vnni\\.cc$")
      set_source_files_properties(${source} PROPERTIES COMPILE_OPTIONS
        "-mavx2;-mfma;-mf16c;-mavx512f;-mavx512bw;-mavx512dq;-mavx512vl;-mavx512vnni;-mprefer-vector-width=512")
    elseif(source MATCHES "_avx512bf16\\.cc$")
      set_source_files_properties(${source} PROPERTIES COMPILE_OPTIONS
        "-mavx2;-mfma;-mf16c;-mavx512f;-mavx512bw;-mavx512dq;-mavx512vl;-mavx512bf16;-mprefer-vector-width=512")
    endif()
  endforeach()
endfunction()

# quaver_library(NAME [TORCH] [TOGETHER] [DEPS lib...]): every .cc below this folder becomes libquaver_NAME.
function(quaver_library name)
  cmake_parse_arguments(ARG "TORCH;TOGETHER" "" "DEPS" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${name}/*.cc)
  file(GLOB_RECURSE cuda_sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${name}/*.cu)
  if(QUAVER_CUDA)  # x.cu stands in the place of x_stub.cc
    foreach(source ${cuda_sources})
      string(REGEX REPLACE "\\.cu$" "_stub.cc" stub ${source})
      list(REMOVE_ITEM sources ${stub})
    endforeach()
    list(APPEND sources ${cuda_sources})
  endif()
  if(NOT sources)
    add_library(quaver_${name} INTERFACE)
    set(scope INTERFACE)
  else()
    add_library(quaver_${name} STATIC ${sources})
    quaver_isa_flags(${sources})
    set(scope PUBLIC)
  endif()
  target_include_directories(quaver_${name} ${scope} ${CMAKE_SOURCE_DIR}/src)
  target_link_libraries(quaver_${name} ${scope} ${ARG_DEPS})
  if(QUAVER_CUDA AND cuda_sources)
    target_link_libraries(quaver_${name} ${scope} CUDA::cudart)
  endif()
  if(ARG_TORCH)
    quaver_use_torch(quaver_${name} ${scope})
  endif()
  if(sources AND (ARG_TORCH OR ARG_TOGETHER))
    quaver_together(quaver_${name})
  endif()
endfunction()

# torch's headers as system headers, on this target alone; its own fmt must not reach the torch-free ones.
function(quaver_use_torch target scope)
  target_include_directories(${target} SYSTEM ${scope} ${TORCH_INCLUDE_DIRS})
  target_link_libraries(${target} ${scope} ${TORCH_LIBRARIES})
  if(NOT scope STREQUAL "INTERFACE" AND NOT QUAVER_CUDA)
    if(NOT TARGET quaver_torch_pch)
      add_library(quaver_torch_pch STATIC ${CMAKE_SOURCE_DIR}/cmake/torch_pch.cc)
      target_include_directories(quaver_torch_pch SYSTEM PUBLIC ${TORCH_INCLUDE_DIRS})
      target_link_libraries(quaver_torch_pch PUBLIC ${TORCH_LIBRARIES})
      target_precompile_headers(quaver_torch_pch PRIVATE ${CMAKE_SOURCE_DIR}/cmake/torch_pch.h)
    endif()
    target_precompile_headers(${target} REUSE_FROM quaver_torch_pch)
    target_compile_options(${target} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-fpch-preprocess>)  # for ccache
    get_target_property(type ${target} TYPE)
    if(type STREQUAL "EXECUTABLE")
      target_compile_options(${target} PRIVATE -fPIC)  # not -fPIE, or the precompiled header doesn't fit
    endif()
  endif()
endfunction()

# quaver_test(NAME [TORCH] [DEPS lib...]): every *_test.cc below tests/NAME becomes the program quaver_NAME_tests;
# *_cuda_test.cc in CUDA builds alone.
function(quaver_test name)
  cmake_parse_arguments(ARG "TORCH" "" "DEPS" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${name}/*.cc)
  if(NOT QUAVER_CUDA)
    list(FILTER sources EXCLUDE REGEX "_cuda_test\\.cc$")
  endif()
  if(NOT sources)
    return()
  endif()
  string(REPLACE "/" "_" target quaver_${name}_tests)
  add_executable(${target} ${sources})
  target_include_directories(${target} PRIVATE ${CMAKE_SOURCE_DIR}/src ${CMAKE_SOURCE_DIR}/tests)
  target_link_libraries(${target} PRIVATE ${ARG_DEPS} GTest::gtest GTest::gmock GTest::gtest_main)
  target_compile_definitions(${target} PRIVATE QUAVER_TEST_DATA="${CMAKE_SOURCE_DIR}/tests")
  target_compile_options(${target} PRIVATE -O1)  # what is tested is optimized in the libraries
  quaver_together(${target})
  if(ARG_TORCH)
    quaver_use_torch(${target} PRIVATE)
  endif()
  add_test(NAME ${name} COMMAND ${target})
  set_tests_properties(${name} PROPERTIES TIMEOUT 900)
endfunction()
