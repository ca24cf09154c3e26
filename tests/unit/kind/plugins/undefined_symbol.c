/* Needs a function that nobody has. */
#include "eventd/plugin.h"

int nobody_has_this(void);

EVD_PLUGIN_EXPORT int eventd_plugin(void);

int
eventd_plugin(void)
{
	return nobody_has_this();
}
