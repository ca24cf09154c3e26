/* A shared object that is no plugin. */
int this_is_no_plugin(void);

int
this_is_no_plugin(void)
{
	return 0;
}
