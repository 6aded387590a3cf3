Functions V;
Symbols i,j,k,l;
Local X1 = sum_(i,1,16,V(i));
Local X2 = sum_(i,2,16,V(i)*sum_(j,1,i-1,V(j)));
Local X3 = sum_(i,3,16,V(i)*sum_(j,2,i-1,V(j)*sum_(k,1,j-1,V(k))));
Local X4 = sum_(i,4,16,V(i)*sum_(j,3,i-1,V(j)*sum_(k,2,j-1,V(k)*sum_(l,1,k-1,V(l)))));
.sort
Hide X1,X2,X3,X4;
Local P = X1+X2-1/2*X1*X1+X3-1/2*(X1*X2+X2*X1)+1/3*X1*X1*X1+X4-1/2*(X1*X3+X2*X2+X3*X1)+1/3*(X1*X1*X2+X1*X2*X1+X2*X1*X1)-1/4*X1*X1*X1*X1;
.sort
#write <> "elapsed `timer_' ms"
.end
