//go:build unix

package fencetest

import (
	"database/sql"
	"fmt"
	"testing"

	_ "modernc.org/sqlite" // the driver "sqlite"

	"github.com/holdfast-go/holdfast/contrib/internal/sqlitetest"
	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/internal/servers"
	"github.com/holdfast-go/holdfast/internal/servers/serverstest"
)

// database is one that the suite runs on. Each test uses tables of its own.
type database struct {
	dialect     fence.Dialect
	driver, dsn string
	server      *servers.Server // nil for SQLite
}

func (d database) open(t *testing.T) *sql.DB {
	t.Helper()
	db, err := sql.Open(d.driver, d.dsn)
	if err != nil {
		t.Fatal(err)
	}
	db.SetMaxOpenConns(4)
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

func (d database) guard(t *testing.T, db *sql.DB, table string) *fence.SQL {
	t.Helper()
	g, err := fence.NewSQL(db, d.dialect, table)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// arg is a placeholder of the database.
func (d database) arg(n int) string {
	if d.dialect == fence.Postgres {
		return fmt.Sprintf("$%d", n)
	}
	return "?"
}

func exec(t *testing.T, db *sql.DB, statement string, args ...any) {
	t.Helper()
	if _, err := db.ExecContext(t.Context(), statement, args...); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

func TestPostgres(t *testing.T) {
	t.Parallel()
	s := serverstest.Start(t, servers.Postgres)
	d := database{fence.Postgres, "pgx", s.PostgresDSN("postgres"), s}
	simple := d // as behind a pooler that knows no prepared statements
	simple.dsn += "&default_query_exec_mode=simple_protocol"
	repeatable := d
	repeatable.dsn += "&default_transaction_isolation=repeatable%20read"
	t.Run("tests", func(t *testing.T) {
		suite(t, d)
		t.Run("SimpleProtocol", func(t *testing.T) { t.Parallel(); contract(t, simple, "contract_simple") })
		t.Run("RepeatableRead", func(t *testing.T) { t.Parallel(); race(t, repeatable, "repeatable") })
		t.Run("ARoleThatMayNotMakeTablesUsesTheOneThatIsThere", func(t *testing.T) { t.Parallel(); withoutRights(t, d) })
	})
	t.Run("TheServerIsKilled", func(t *testing.T) { killServer(t, d) })
}

func TestMariaDB(t *testing.T) {
	t.Parallel()
	s := serverstest.Start(t, servers.MariaDB)
	d := database{fence.MySQL, "mysql", s.MariaDBDSN(""), s}
	found := d // a row that stays as it is counts as affected
	found.dsn = s.MariaDBDSN("clientFoundRows=true&interpolateParams=true")
	committed := d
	committed.dsn = s.MariaDBDSN("tx_isolation=%27READ-COMMITTED%27")
	t.Run("tests", func(t *testing.T) {
		suite(t, d)
		t.Run("FoundRows", func(t *testing.T) {
			t.Parallel()
			contract(t, found, "contract_found")
			rowContract(t, found, "rows_found")
		})
		t.Run("ReadCommitted", func(t *testing.T) { t.Parallel(); race(t, committed, "committed") })
	})
	t.Run("TheServerIsKilled", func(t *testing.T) { killServer(t, d) })
}

func TestSQLite(t *testing.T) {
	t.Parallel()
	suite(t, database{dialect: fence.SQLite, driver: "sqlite"})
}

// suite is what every database must do.
func suite(t *testing.T, d database) {
	tests := map[string]func(*testing.T, database){
		"TheGuardKeepsItsContract":                  func(t *testing.T, d database) { contract(t, d, "contract") },
		"ARowWithItsOwnMarkKeepsTheContract":        func(t *testing.T, d database) { rowContract(t, d, "row_marks") },
		"ResourcesAreToldApartByEveryByte":          everyByte,
		"AForeignMarkAdmitsNothing":                 foreignMarks,
		"TheTableRefusesWhatIsNoMark":               ownTable,
		"ManyMayMakeTheTableAtOnce":                 makeTogether,
		"MarkAndWriteCommitTogetherOrNotAtAll":      together,
		"AnObserverOfDoMayUseTheGuard":              observed,
		"ATransactionShutsOutTheFormerHolder":       shutOut,
		"SixtyFourWritersWithRandomTokens":          func(t *testing.T, d database) { race(t, d, "race") },
		"SixtyFourWritersOfOneRow":                  rowRace,
		"AWriterIsKilledInTheMiddleOfItsWork":       killWriter,
		"SixtyFourWritersAskForOneTokenButOnceEach": raceOnce,
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if d.dialect == fence.SQLite { // one writer at a time in a file: each test has its own
				d.dsn = sqlitetest.New(t) + "&_pragma=synchronous(NORMAL)"
			}
			test(t, d)
		})
	}
}
