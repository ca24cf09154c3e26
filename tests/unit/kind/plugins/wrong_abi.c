/* Of another ABI, with nothing behind the number. */
#include <stdint.h>

#include "eventd/plugin.h"

EVD_PLUGIN_EXPORT extern const uint32_t eventd_plugin[2];
const uint32_t eventd_plugin[2] = {7, 8};
