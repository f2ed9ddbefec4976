# The header's comments are plain C comments. Doxygen reads them as documentation where they stand before a
# declaration or after a member.
/^\/\* ----/b
1s|^/\* |/** @file\
 * |
s|^/\* |/** |
s|^\(  *\)/\* |\1/** |
s|\([;,{}a-zA-Z0-9_]\)  */\* |\1 /**< |
s|'\\t'|a tab|
