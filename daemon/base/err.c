#include "base/err.h"

_Thread_local struct err_site err_last;
