# What is on a machine, as a person would list it. No contents of files: some hold keys.
hostname
ls -laR /etc/kubernetes /etc/cni /var/lib/kubelet/*.yaml /var/lib/kubelet/*.env /var/lib/kubelet/pki /run/flannel 2>&1
ls -la /opt/cni/bin /run/containerd 2>&1
cat /etc/containerd/config.toml /proc/swaps 2>&1
df -h / /var/lib/kubelet /var/lib/containerd 2>&1
ip -brief address
ip route
ss -ltnp
