Functions A1,...,A8,F1,...,F8;
Local P = (1+A8+F8+F8*A8);
#do l=7,1,-1
Multiply right, 1+A'l'+F'l'+F'l'*A'l';
#enddo
.sort
#write <> "elapsed `timer_' ms"
.end
