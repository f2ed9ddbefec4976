/* The search space that is there without a file: classifiers of images and of vectors, of some
 * 2,000 to 200,000 parameters on samples of 28 x 28. Images are halved early, so that one core
 * trains thousands of samples a second. */
#include "runtime/population/evolve/search_space_internal.h"

#define LINE(text) text "\n"
const char swi_space_default_text[] =
    /* clang-format off */
LINE("{")
LINE(" \"format\": \"stepwell search space 1\",")
LINE(" \"parts\": {")
LINE("  \"act\": {\"vertex\": \"activation\"},")
LINE("  \"norm-act\": {\"choice\": [")
LINE("   {\"chain\": [{\"vertex\": \"batch_norm\"}, {\"use\": \"act\"}]},")
LINE("   {\"use\": \"act\"}], \"weights\": [3, 1]},")
LINE("  \"conv\": {\"chain\": [")
LINE("   {\"vertex\": \"conv2d\", \"size\": {\"from\": 8, \"to\": 32, \"step\": 4}, \"kernel\": [3, 3, 5]},")
LINE("   {\"use\": \"norm-act\"}]},")
LINE("  \"separable\": {\"chain\": [")
LINE("   {\"vertex\": \"conv2d\", \"groups\": \"depthwise\", \"kernel\": [3, 5]},")
LINE("   {\"vertex\": \"conv2d\", \"size\": {\"from\": 8, \"to\": 48, \"step\": 4}, \"kernel\": 1},")
LINE("   {\"use\": \"norm-act\"}]},")
LINE("  \"path\": {\"chain\": [")
LINE("   {\"vertex\": \"conv2d\", \"size\": {\"from\": 4, \"to\": 16, \"step\": 4}, \"kernel\": [1, 3, 5]},")
LINE("   {\"use\": \"norm-act\"}]},")
LINE("  \"wide\": {\"chain\": [")
LINE("   {\"vertex\": \"conv2d\", \"size\": {\"from\": 24, \"to\": 64, \"step\": 8}, \"kernel\": [3, 3, 5]},")
LINE("   {\"use\": \"norm-act\"}]},")
LINE("  \"layer\": {\"choice\": [{\"use\": \"conv\"}, {\"use\": \"separable\"}]},")
LINE("  \"cell\": {\"choice\": [")
LINE("   {\"use\": \"layer\"},")
LINE("   {\"residual\": {\"repeat\": {\"use\": \"layer\"}, \"times\": [1, 2]}},")
LINE("   {\"fork\": {\"use\": \"path\"}, \"paths\": [2, 3]}], \"weights\": [3, 2, 1]},")
LINE("  \"down\": {\"if\": \"height >= 4\", \"then\": {\"choice\": [")
LINE("   {\"vertex\": \"max_pool\", \"kernel\": 2, \"stride\": 2},")
LINE("   {\"vertex\": \"avg_pool\", \"kernel\": 2, \"stride\": 2},")
LINE("   {\"chain\": [")
LINE("    {\"vertex\": \"conv2d\", \"size\": {\"from\": 16, \"to\": 32, \"step\": 4}, \"kernel\": 3, \"stride\": 2},")
LINE("    {\"use\": \"norm-act\"}]}], \"weights\": [2, 1, 1]}},")
LINE("  \"stem\": {\"chain\": [")
LINE("   {\"vertex\": \"conv2d\", \"size\": {\"from\": 8, \"to\": 16, \"step\": 4}, \"kernel\": [3, 5], \"stride\": [1, 2]},")
LINE("   {\"use\": \"norm-act\"},")
LINE("   {\"if\": \"height >= 16\", \"then\": {\"vertex\": \"max_pool\", \"kernel\": 2, \"stride\": 2}}]},")
LINE("  \"image\": {\"chain\": [")
LINE("   {\"use\": \"stem\"},")
LINE("   {\"repeat\": {\"use\": \"cell\"}, \"times\": [1, 2]},")
LINE("   {\"use\": \"down\"},")
LINE("   {\"repeat\": {\"choice\": [{\"use\": \"wide\"}, {\"use\": \"cell\"}]}, \"times\": [1, 2]},")
LINE("   {\"choice\": [{\"use\": \"down\"}, {\"chain\": []}]},")
LINE("   {\"if\": \"height <= 4\",")
LINE("    \"then\": {\"choice\": [{\"vertex\": \"flatten\"}, {\"vertex\": \"global_avg_pool\"}]},")
LINE("    \"else\": {\"choice\": [{\"vertex\": \"global_avg_pool\"}, {\"vertex\": \"global_max_pool\"}], \"weights\": [3, 1]}}]},")
LINE("  \"dense\": {\"chain\": [")
LINE("   {\"vertex\": \"linear\", \"size\": {\"from\": 32, \"to\": 128, \"step\": 16}},")
LINE("   {\"use\": \"act\"}]},")
LINE("  \"vector\": {\"chain\": [")
LINE("   {\"use\": \"dense\"},")
LINE("   {\"repeat\": {\"choice\": [{\"use\": \"dense\"}, {\"residual\": {\"repeat\": {\"use\": \"dense\"}, \"times\": [1, 2]}}]},")
LINE("    \"times\": [0, 1, 2, 3]}]}")
LINE(" },")
LINE(" \"body\": {\"chain\": [")
LINE("  {\"if\": \"image\", \"then\": {\"use\": \"image\"}, \"else\": {\"use\": \"vector\"}},")
LINE("  {\"choice\": [{\"chain\": []}, {\"vertex\": \"dropout\", \"rate\": {\"from\": 0.05, \"to\": 0.4}}]}]},")
LINE(" \"insert\": [")
LINE("  {\"if\": \"image\", \"then\": {\"choice\": [")
LINE("   {\"use\": \"conv\"},")
LINE("   {\"use\": \"separable\"},")
LINE("   {\"residual\": {\"use\": \"layer\"}},")
LINE("   {\"fork\": {\"use\": \"path\"}, \"paths\": 2},")
LINE("   {\"vertex\": \"batch_norm\"},")
LINE("   {\"use\": \"act\"},")
LINE("   {\"vertex\": \"max_pool\", \"kernel\": 3}]},")
LINE("  \"else\": {\"choice\": [")
LINE("   {\"use\": \"dense\"},")
LINE("   {\"residual\": {\"use\": \"dense\"}},")
LINE("   {\"use\": \"act\"},")
LINE("   {\"vertex\": \"dropout\", \"rate\": {\"from\": 0.05, \"to\": 0.3}}]}}],")
LINE(" \"optimizers\": [\"adam\", \"adamw\", \"rmsprop\", \"sgd\"],")
LINE(" \"lr\": {\"from\": 0.0005, \"to\": 0.01},")
LINE(" \"batch\": [32, 64, 128],")
LINE(" \"activations\": [\"relu\", \"leaky_relu\", \"swish\", \"gelu_tanh\", \"elu\", \"hard_swish\"]")
LINE("}");
/* clang-format on */

sw_status sw_search_space_default(sw_search_space **out, const sw_task *given)
{
    static const char call[] = "sw_search_space_default";
    sw_task task;
    if (out == NULL || given == NULL)
        SW_FAIL(SW_INVALID, "%s: out and task must not be NULL", call);
    SW_TRY(swi_struct_read(SWI_STRUCT_sw_task, &task, given, call));
    return sw_search_space_parse(out, swi_space_default_text, sizeof swi_space_default_text - 1,
                                 "the default space");
}
