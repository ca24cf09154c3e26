/* The right ABI with half a table. */
#include <stdint.h>

#include "eventd/plugin.h"

EVD_PLUGIN_EXPORT extern const uint32_t eventd_plugin[2];
const uint32_t eventd_plugin[2] = {EVD_PLUGIN_ABI, 8};
