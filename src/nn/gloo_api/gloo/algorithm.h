// torch's wheel holds Gloo but not its headers, which ProcessGroupGloo.hpp includes: the five files of this
// folder declare the little that it takes of them. Nothing here.
#pragma once
