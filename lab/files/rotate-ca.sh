# Rotates the cluster's CA half way, as Kubernetes' documentation has it, or takes that back: rotate-ca begin|end. On the control
# plane. From `begin` on the API server takes clients of the old CA and of the new one, and the new one signs.
pki=/etc/kubernetes/pki
manifests=/etc/kubernetes/manifests
kept=/root/ca-rotation
mkdir -p "$kept"
# Never a half-written file among the manifests: the kubelet would run it.
put() { mv "$kept/new" "$manifests/$1.yaml"; }
if [ "$1" = begin ]; then
    cp -n "$manifests/kube-apiserver.yaml" "$manifests/kube-controller-manager.yaml" "$kept"
    openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=kubernetes -keyout "$pki/next.key" -out "$pki/next.crt" 2>/dev/null
    cat "$pki/next.crt" "$pki/ca.crt" > "$pki/both.crt"
    sed "s|--client-ca-file=.*|--client-ca-file=$pki/both.crt|" "$kept/kube-apiserver.yaml" > "$kept/new"
    put kube-apiserver
    sed -e "s|--cluster-signing-cert-file=.*|--cluster-signing-cert-file=$pki/next.crt|" \
        -e "s|--cluster-signing-key-file=.*|--cluster-signing-key-file=$pki/next.key|" "$kept/kube-controller-manager.yaml" > "$kept/new"
    put kube-controller-manager
    api=$pki/both.crt
    signer=$pki/next.crt
else
    for name in kube-apiserver kube-controller-manager; do
        [ -e "$kept/$name.yaml" ] || continue
        cp "$kept/$name.yaml" "$kept/new"
        put "$name"
    done
    api=$pki/ca.crt
    signer=$pki/ca.crt
fi
runs() { ps -ww -C "$1" -o args= | grep -q -- "$2"; }
for i in $(seq 600); do
    runs kube-apiserver "--client-ca-file=$api" && runs kube-controller-manager "--cluster-signing-cert-file=$signer" &&
        curl -sk --max-time 2 https://127.0.0.1:6443/readyz | grep -q '^ok' && exit 0
    sleep 0.2
done
echo "the control plane did not come back" >&2
exit 1
