* the product of the sums in left.h and right.h, which the benchmark writes; reading them is not timed
Functions V1,...,V8;
Local A =
#include left.h
;
Local B =
#include right.h
;
.sort
Hide A,B;
#reset timer
Local P = A*B;
.sort
#write <> "elapsed `timer_' ms"
.end
