Functions V;
Symbols i,j,k;
Local P = 1 + sum_(i,1,96,V(i)) + sum_(i,2,96,V(i)*sum_(j,1,i-1,V(j))) + sum_(i,3,96,V(i)*sum_(j,2,i-1,V(j)*sum_(k,1,j-1,V(k))));
.sort
#write <> "elapsed `timer_' ms"
.end
