/* The symbol is there, but a function. */
#include "eventd/plugin.h"

EVD_PLUGIN_EXPORT int eventd_plugin(void);

int
eventd_plugin(void)
{
	return 0;
}
