"""What breaks: processes at named points, networks, disks, clocks, machines."""
