* variant: 20 distinct noncommuting functions without argument
Functions V1,...,V20;
Local P = (1+V20);
#do l=19,1,-1
Multiply right, 1+V'l';
#enddo
.sort
#write <> "elapsed `timer_' ms"
.end
