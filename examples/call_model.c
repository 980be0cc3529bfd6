/* Calls a model that a library holds. In Python, for a model with an input x of 1x8 and an output of 1x4:
 *
 *     pb.compile_model("mlp.onnx").export("mlp.so")
 *
 * writes the library, with the weights in it, and mlp.h. Then, in the same folder:
 *
 *     cc -I. call_model.c ./mlp.so -o call_model && ./call_model
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mlp.h"

int main(void) {
  float x[8], y[4];
  for (int i = 0; i < 8; i++) x[i] = (float)i;

  /* Memory between the layers: one piece for each thread that calls the model at the same time. It begins with zeros:
   * leftovers of other uses may be subnormal numbers, with which multiplications are slow. */
  void *workspace = aligned_alloc(64, MLP_WORKSPACE_BYTES);
  if (!workspace) return 1;
  memset(workspace, 0, MLP_WORKSPACE_BYTES);

  mlp(x, y, workspace);
  for (int i = 0; i < 4; i++) printf("%.9g\n", y[i]);

  int64_t nanoseconds = mlp__timed(x, y, workspace, 1000);
  fprintf(stderr, "%.3f us per call\n", (double)nanoseconds / 1000 / 1000);
  free(workspace);
  return 0;
}
