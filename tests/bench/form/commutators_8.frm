Functions V,C;
Symbols i,j,k,l,x,y,z,u;
Local P = sum_(i,1,8,sum_(j,1,8,sum_(k,1,8,sum_(l,1,8,(i+2*j+3*k+5*l)*C(i,j,k,l)))));
id C(x?,y?,z?,u?)=V(x)*C(y,z,u)-C(y,z,u)*V(x);
repeat id C(x?,y?,z?)=V(x)*C(y,z)-C(y,z)*V(x);
id C(x?,y?)=V(x)*V(y)-V(y)*V(x);
.sort
#write <> "elapsed `timer_' ms"
.end
