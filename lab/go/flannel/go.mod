module carrick.lab/flannel

go 1.24.0

require github.com/flannel-io/flannel v0.26.7
