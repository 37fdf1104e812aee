// Stands for Gloo's header, which torch's wheel lacks (see algorithm.h). Nothing here.
#pragma once
