module carrick.lab/cni-flannel

go 1.24.0

require github.com/containernetworking/plugins v0.9.1
