#!/bin/sh
# Turns an nspawn container into something a kubelet takes for a machine. /etc/lab-machine has ADDRESS, GATEWAY, UUID.
set -eu
. /etc/lab-machine

ip addr add "$ADDRESS/24" dev host0
ip link set host0 up
ip route add default via "$GATEWAY"
sysctl -qw net.ipv4.ip_forward=1

# nspawn shows cgroup v1 read-only; the kubelet and runc have to make groups there. With cgroup v2 there is nothing to do.
for controller in freezer devices cpu pids blkio cpuacct cpuset memory hugetlb; do
    if [ -d "/sys/fs/cgroup/$controller" ] && [ ! -L "/sys/fs/cgroup/$controller" ]; then
        mount -o remount,rw,bind "/sys/fs/cgroup/$controller"
    fi
done

# The kubelet insists on three settings of the kernel. The kernel is not this machine's own: show the values, change nothing.
shown() {
    echo "$2" > "/run/lab-$(basename "$1")"
    mount --bind "/run/lab-$(basename "$1")" "/proc/sys/$1"
}
shown vm/overcommit_memory 1
shown kernel/panic 10
shown kernel/panic_on_oops 1

# A DMI of its own: the kubelet's systemUUID comes from here. /sys cannot be written, so it is overlaid.
mkdir -p /run/lab-dmi/dmi/id
echo "$UUID" > /run/lab-dmi/dmi/id/product_uuid
echo 'Carrick lab' > /run/lab-dmi/dmi/id/sys_vendor
echo "$(cat /etc/hostname)" > /run/lab-dmi/dmi/id/product_serial
chmod 0400 /run/lab-dmi/dmi/id/product_uuid /run/lab-dmi/dmi/id/product_serial
mount -t overlay lab-dmi -o ro,lowerdir=/run/lab-dmi:/sys/class /sys/class
