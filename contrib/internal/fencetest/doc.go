// Package fencetest tests the guards of package fence against real servers: Postgres, MariaDB,
// SQLite and Redis. It is a module of its own, because fence itself imports nothing but the
// standard library, and those who use it should not have to download drivers.
//
// Servers that are not installed are skipped; on Debian they come with
//
//	apt-get install postgresql mariadb-server redis-server
package fencetest
