module whetstone.dev/sandbox-daemon

go 1.25
