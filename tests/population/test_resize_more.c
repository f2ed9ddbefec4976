#include "tests/population/resize_nets.h"
