//go:build unix

package before

import _ "log/syslog" // as dragonboat's logging library does here
