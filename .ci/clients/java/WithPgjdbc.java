import java.io.StringReader;
import java.io.StringWriter;
import java.math.BigDecimal;
import java.sql.*;
import java.time.*;
import java.util.*;
import java.util.concurrent.*;
import org.postgresql.PGConnection;
import org.postgresql.util.PSQLException;

/**
 * pgjdbc: values in text and, from the fifth execution, in binary; batches, fetch sizes, savepoints, updatable rows, COPY,
 * cancelling, errors, and all that DatabaseMetaData asks the catalog. Each check is a function with a line that says how it
 * ended, as in ../python/checks.py.
 */
public class WithPgjdbc {
    interface Check {
        void run(Connection c) throws Exception;
    }

    interface Failing {
        void run() throws SQLException;
    }

    static final long PATIENCE_SECONDS = 90;
    static String url;
    static String other;

    static void same(Object found, Object wanted) {
        if (!Objects.deepEquals(found, wanted)) {
            throw new AssertionError("found " + shown(found) + ", wanted " + shown(wanted));
        }
    }

    static String shown(Object o) {
        return o instanceof Object[] a ? Arrays.deepToString(a) : o instanceof byte[] b ? Arrays.toString(b) : String.valueOf(o);
    }

    /** The error that `failing` ends with, which must have this SQLSTATE. */
    static SQLException fails(String state, Failing failing) {
        try {
            failing.run();
        } catch (SQLException error) {
            if (!state.equals(error.getSQLState())) {
                throw new AssertionError(error.getSQLState() + " " + error.getMessage() + ", wanted " + state, error);
            }
            return error;
        }
        throw new AssertionError("no error, wanted " + state);
    }

    static Connection connect(String to, String... options) throws SQLException {
        Properties properties = new Properties();
        for (int k = 0; k < options.length; k += 2) {
            properties.setProperty(options[k], options[k + 1]);
        }
        return DriverManager.getConnection(to, properties);
    }

    static void execute(Connection c, String sql) throws SQLException {
        try (Statement s = c.createStatement()) {
            s.execute(sql);
        }
    }

    /** All rows of a query, each with its columns as text. */
    static List<String> rows(ResultSet r) throws SQLException {
        List<String> rows = new ArrayList<>();
        int columns = r.getMetaData().getColumnCount();
        while (r.next()) {
            StringJoiner row = new StringJoiner("|");
            for (int k = 1; k <= columns; k++) {
                row.add(r.getString(k));
            }
            rows.add(row.toString());
        }
        r.close();
        return rows;
    }

    static List<String> rows(Connection c, String sql) throws SQLException {
        try (Statement s = c.createStatement()) {
            return rows(s.executeQuery(sql));
        }
    }

    /** Some columns of what DatabaseMetaData answers. */
    static List<String> some(ResultSet r, String... columns) throws SQLException {
        List<String> rows = new ArrayList<>();
        while (r.next()) {
            StringJoiner row = new StringJoiner("|");
            for (String column : columns) {
                row.add(r.getString(column));
            }
            rows.add(row.toString());
        }
        r.close();
        return rows;
    }

    static void connecting(Connection c) throws Exception {
        same(c.getMetaData().getDatabaseMajorVersion(), 15);
        same(c.isValid(5), true);
        same(c.getCatalog(), rows(c, "SELECT current_database()").get(0));
        same(c.getSchema(), "public");
        same(rows(c, "SHOW application_name"), List.of("checks"));
        c.setClientInfo("ApplicationName", "other");
        same(rows(c, "SHOW application_name"), List.of("other"));
        c.setReadOnly(true);
        c.setAutoCommit(false);
        fails("25006", () -> execute(c, "CREATE TABLE never (x int)"));
        c.rollback();
        c.setReadOnly(false);
        c.setAutoCommit(true);
        for (int level : new int[] {Connection.TRANSACTION_SERIALIZABLE, Connection.TRANSACTION_REPEATABLE_READ}) {
            c.setTransactionIsolation(level);
            same(c.getTransactionIsolation(), level);
        }
        c.setSchema("elsewhere");
        same(rows(c, "SHOW search_path"), List.of("elsewhere"));
    }

    /** Each value goes and comes several times: at first in text, then the statement has a name and answers in binary. */
    static void valuesComeBack(Connection c) throws Exception {
        Object[][] values = {
            {"bool", true}, {"int4", 2147483647}, {"int8", Long.MIN_VALUE}, {"float4", 1.5f}, {"float8", 0.1},
            {"numeric", new BigDecimal("-12345678.90123")}, {"text", "it's \\ žluť 🐎"}, {"varchar(3)", "abc"},
            {"date", LocalDate.of(2024, 2, 29)}, {"time", LocalTime.of(1, 2, 3, 4000)},
            {"timestamp", LocalDateTime.of(2024, 2, 29, 12, 0, 0, 1000)},
            {"timestamptz", OffsetDateTime.of(2024, 2, 29, 12, 0, 0, 1000, ZoneOffset.UTC)},
            {"uuid", UUID.fromString("12345678-1234-5678-1234-567812345678")}, {"bytea", new byte[] {0, -1, 39, 92}},
        };
        for (Object[] pair : values) {
            Class<?> type = pair[1].getClass();
            try (PreparedStatement s = c.prepareStatement("SELECT ?::" + pair[0] + ", ?::" + pair[0])) {
                for (int k = 0; k < 8; k++) {
                    s.setObject(1, pair[1]);
                    s.setNull(2, Types.NULL);
                    try (ResultSet r = s.executeQuery()) {
                        r.next();
                        same(type == byte[].class ? r.getBytes(1) : r.getObject(1, type), pair[1]);
                        same(r.getObject(2), null);
                        same(r.wasNull(), true);
                    }
                }
            }
        }
        try (PreparedStatement s = c.prepareStatement("SELECT ?::int[], ?::text[], ?::smallint")) {
            for (int k = 0; k < 8; k++) {
                s.setArray(1, c.createArrayOf("int4", new Object[] {1, null, 3}));
                s.setArray(2, c.createArrayOf("text", new Object[] {"a\"b", "", null}));
                s.setShort(3, (short) -5);
                try (ResultSet r = s.executeQuery()) {
                    r.next();
                    same(r.getArray(1).getArray(), new Integer[] {1, null, 3});
                    same(r.getArray(2).getArray(), new String[] {"a\"b", "", null});
                    same(r.getShort(3), (short) -5);
                }
            }
        }
    }

    static void rowsAreWritten(Connection c) throws Exception {
        execute(c, "CREATE TABLE written (id serial PRIMARY KEY, name text NOT NULL, n numeric(8,2), at timestamptz DEFAULT now())");
        try (PreparedStatement s = c.prepareStatement("INSERT INTO written (name, n) VALUES (?, ?)", Statement.RETURN_GENERATED_KEYS)) {
            for (int k = 1; k <= 7; k++) {
                s.setString(1, "row " + k);
                s.setBigDecimal(2, new BigDecimal("1.239"));
                same(s.executeUpdate(), 1);
                try (ResultSet r = s.getGeneratedKeys()) {
                    r.next();
                    same(r.getInt("id"), k);
                    same(r.getBigDecimal("n"), new BigDecimal("1.24"));
                }
            }
        }
        try (PreparedStatement s = c.prepareStatement("INSERT INTO written (name) VALUES (?)", new String[] {"id"})) {
            s.setString(1, "with a name");
            s.executeUpdate();
            try (ResultSet r = s.getGeneratedKeys()) {
                r.next();
                same(r.getInt(1), 8);
            }
        }
        try (Statement s = c.createStatement()) {
            same(s.executeUpdate("UPDATE written SET n = 0 WHERE id < 4"), 3);
            same(s.execute("DELETE FROM written WHERE id = 1; SELECT count(*) FROM written"), false);
            same(s.getUpdateCount(), 1);
            same(s.getMoreResults(), true);
            same(rows(s.getResultSet()), List.of("7"));
        }
    }

    static void batches(Connection c) throws Exception {
        for (String rewrite : List.of("false", "true")) {
            try (Connection d = connect(url, "reWriteBatchedInserts", rewrite)) {
                execute(d, "DROP TABLE IF EXISTS batched");
                execute(d, "CREATE TABLE batched (x int PRIMARY KEY, y text)");
                d.setAutoCommit(false);
                try (PreparedStatement s = d.prepareStatement("INSERT INTO batched VALUES (?, ?)")) {
                    for (int k = 0; k < 1000; k++) {
                        s.setInt(1, k);
                        s.setString(2, "row " + k);
                        s.addBatch();
                    }
                    same(s.executeBatch().length, 1000);
                    d.commit();
                    s.setInt(1, 2000);
                    s.setString(2, null);
                    s.addBatch();
                    s.setInt(1, 5);
                    s.addBatch();
                    fails("23505", s::executeBatch);
                    d.rollback();
                }
                same(rows(d, "SELECT count(*) FROM batched"), List.of("1000"));
                try (Statement s = d.createStatement()) {
                    s.addBatch("UPDATE batched SET y = 'a' WHERE x < 10");
                    s.addBatch("DELETE FROM batched WHERE x < 5");
                    same(s.executeBatch(), new int[] {10, 5});
                }
                d.commit();
            }
        }
    }

    static void fetchSizes(Connection c) throws Exception {
        c.setAutoCommit(false);
        try (PreparedStatement s = c.prepareStatement("SELECT x FROM generate_series(1, ?) AS g(x)")) {
            s.setFetchSize(70);
            for (int k = 0; k < 7; k++) {
                s.setInt(1, 1000);
                long total = 0;
                try (ResultSet r = s.executeQuery()) {
                    while (r.next()) {
                        total += r.getInt(1);
                        if (r.getInt(1) == 500) {
                            same(rows(c, "SELECT 'between'"), List.of("between"));
                        }
                    }
                }
                same(total, 500500L);
            }
            s.setMaxRows(5);
            s.setInt(1, 100);
            same(rows(s.executeQuery()).size(), 5);
        }
        c.commit();
    }

    static void transactionsAndSavepoints(Connection c) throws Exception {
        execute(c, "CREATE TABLE blocks (x int)");
        c.setAutoCommit(false);
        c.setTransactionIsolation(Connection.TRANSACTION_SERIALIZABLE);
        execute(c, "INSERT INTO blocks VALUES (1)");
        Savepoint unnamed = c.setSavepoint();
        Savepoint named = c.setSavepoint("a \"name\"");
        execute(c, "INSERT INTO blocks VALUES (2)");
        fails("42P01", () -> execute(c, "SELECT * FROM no_such_table"));
        fails("25P02", () -> execute(c, "SELECT 1"));
        c.rollback(named);
        c.releaseSavepoint(unnamed);
        c.commit();
        same(rows(c, "SELECT x FROM blocks"), List.of("1"));
        fails("22012", () -> execute(c, "SELECT 1/0"));
        c.commit();
        same(rows(c, "SELECT count(*) FROM blocks"), List.of("1"));
        c.commit();
        try (Connection d = connect(url, "autosave", "always")) {
            d.setAutoCommit(false);
            execute(d, "INSERT INTO blocks VALUES (3)");
            fails("22012", () -> execute(d, "SELECT 1/0"));
            d.commit();
            same(rows(d, "SELECT count(*) FROM blocks"), List.of("2"));
        }
    }

    static void updatableRows(Connection c) throws Exception {
        execute(c, "CREATE TABLE updatable (id int PRIMARY KEY, v text); INSERT INTO updatable VALUES (1, 'a'), (2, 'b'), (3, 'c')");
        try (Statement s = c.createStatement(ResultSet.TYPE_SCROLL_INSENSITIVE, ResultSet.CONCUR_UPDATABLE);
                ResultSet r = s.executeQuery("SELECT * FROM updatable ORDER BY id")) {
            r.absolute(2);
            r.updateString("v", "new");
            r.updateRow();
            r.moveToInsertRow();
            r.updateInt("id", 4);
            r.updateString("v", "d");
            r.insertRow();
            r.first();
            r.deleteRow();
        }
        same(rows(c, "SELECT * FROM updatable ORDER BY id"), List.of("2|new", "3|c", "4|d"));
    }

    static void statementsSurviveChangesOfTheirTables(Connection c) throws Exception {
        execute(c, "CREATE TABLE changing (x int, y text); INSERT INTO changing VALUES (1, 'a')");
        try (PreparedStatement s = c.prepareStatement("SELECT * FROM changing"); Connection d = connect(other)) {
            for (int k = 0; k < 8; k++) {
                same(rows(s.executeQuery()), List.of("1|a"));
            }
            execute(d, "ALTER TABLE changing ADD COLUMN z int DEFAULT 5");
            // It is prepared again unseen, outside a block.
            same(rows(s.executeQuery()), List.of("1|a|5"));
            for (int k = 0; k < 8; k++) {
                rows(s.executeQuery());
            }
            c.setAutoCommit(false);
            same(rows(c, "SELECT 1"), List.of("1"));
            execute(d, "ALTER TABLE changing DROP COLUMN y");
            same(fails("0A000", s::executeQuery).getMessage(), "ERROR: cached plan must not change result type");
        }
    }

    static void metadataOfResults(Connection c) throws Exception {
        execute(c, "CREATE TABLE described (id serial PRIMARY KEY, a varchar(7) NOT NULL, b numeric(10,3), c text)");
        try (PreparedStatement s = c.prepareStatement("SELECT id, a AS renamed, b, c || 'x' FROM described WHERE id = ? AND a = ?")) {
            ParameterMetaData p = s.getParameterMetaData();
            same(List.of(p.getParameterTypeName(1), p.getParameterTypeName(2)), List.of("int4", "text"));
            ResultSetMetaData m = s.getMetaData();
            same(List.of(m.getColumnName(1), m.getColumnLabel(2), m.getColumnTypeName(1), m.getColumnTypeName(3)),
                List.of("id", "renamed", "serial", "numeric"));
            same(List.of(m.getPrecision(2), m.getPrecision(3), m.getScale(3)), List.of(7, 10, 3));
            same(List.of(m.isNullable(2), m.isNullable(3), m.isNullable(4)), List.of(0, 1, 2));
            same(List.of(m.isAutoIncrement(1), m.isAutoIncrement(2)), List.of(true, false));
            var own = (org.postgresql.PGResultSetMetaData) m;
            same(List.of(own.getBaseTableName(2), own.getBaseColumnName(2), own.getBaseSchemaName(2)), List.of("described", "a", "public"));
        }
    }

    static void metadataOfTheDatabase(Connection c) throws Exception {
        execute(c, """
            CREATE TABLE owner (id serial PRIMARY KEY, name varchar(20) NOT NULL UNIQUE, born date DEFAULT '2000-01-01');
            CREATE TABLE pet (owner int, n int, price numeric(6,2), PRIMARY KEY (owner, n),
                CONSTRAINT pet_owner FOREIGN KEY (owner) REFERENCES owner ON DELETE CASCADE);
            CREATE INDEX pet_price ON pet (price DESC, n);
            CREATE VIEW cheap AS SELECT owner, n FROM pet WHERE price < 10;
            COMMENT ON TABLE pet IS 'a pet';
            COMMENT ON COLUMN pet.price IS 'in euros'""");
        DatabaseMetaData m = c.getMetaData();
        same(some(m.getTables(null, "public", "%e%", new String[] {"TABLE", "VIEW"}), "TABLE_NAME", "TABLE_TYPE", "REMARKS").stream()
                .filter(row -> row.matches("(owner|pet|cheap).*")).toList(),
            List.of("owner|TABLE|null", "pet|TABLE|a pet", "cheap|VIEW|null"));
        same(some(m.getColumns(null, "public", "owner", "%"), "COLUMN_NAME", "TYPE_NAME", "DATA_TYPE", "COLUMN_SIZE", "NULLABLE",
                "COLUMN_DEF", "ORDINAL_POSITION", "IS_AUTOINCREMENT"),
            List.of("id|serial|4|10|0|nextval('owner_id_seq'::regclass)|1|YES", "name|varchar|12|20|0|null|2|NO",
                "born|date|91|13|1|'2000-01-01'::date|3|NO"));
        same(some(m.getColumns(null, null, "pet", "price"), "DECIMAL_DIGITS", "REMARKS"), List.of("2|in euros"));
        same(some(m.getPrimaryKeys(null, "public", "pet"), "COLUMN_NAME", "KEY_SEQ", "PK_NAME"), List.of("owner|1|pet_pkey", "n|2|pet_pkey"));
        String[] keys = {"PKTABLE_NAME", "PKCOLUMN_NAME", "FKTABLE_NAME", "FKCOLUMN_NAME", "DELETE_RULE", "FK_NAME", "PK_NAME", "DEFERRABILITY"};
        List<String> wanted = List.of("owner|id|pet|owner|0|pet_owner|owner_pkey|7");
        same(some(m.getImportedKeys(null, "public", "pet"), keys), wanted);
        same(some(m.getExportedKeys(null, "public", "owner"), keys), wanted);
        same(some(m.getCrossReference(null, null, "owner", null, null, "pet"), keys), wanted);
        same(some(m.getIndexInfo(null, "public", "pet", false, true), "INDEX_NAME", "NON_UNIQUE", "COLUMN_NAME", "ASC_OR_DESC", "TYPE"),
            List.of("pet_pkey|f|owner|A|3", "pet_pkey|f|n|A|3", "pet_price|t|price|D|3", "pet_price|t|n|A|3"));
        same(some(m.getBestRowIdentifier(null, null, "owner", 0, false), "COLUMN_NAME"), List.of("id"));
        same(some(m.getTablePrivileges(null, "public", "owner"), "GRANTEE", "PRIVILEGE").contains("postgres|SELECT"), true);
        same(some(m.getSchemas(), "TABLE_SCHEM").containsAll(List.of("public", "pg_catalog", "information_schema")), true);
        same(some(m.getTableTypes(), "TABLE_TYPE").contains("VIEW"), true);
        same(some(m.getCatalogs(), "TABLE_CAT").contains(c.getCatalog()), true);
        same(some(m.getTypeInfo(), "TYPE_NAME").containsAll(List.of("int4", "text", "numeric", "uuid", "jsonb", "serial")), true);
        same(some(m.getFunctions(null, "pg_catalog", "lower"), "FUNCTION_NAME").contains("lower"), true);
        same(m.getProcedures(null, "public", "%").next(), false);
        same(m.getMaxColumnNameLength() + m.getMaxColumnsInIndex(), 63 + 32);
        same(List.of(m.getUserName(), m.supportsSavepoints(), m.storesLowerCaseIdentifiers()), List.of("postgres", true, true));
    }

    static void keywords(Connection c) throws Exception {
        same(c.getMetaData().getSQLKeywords().contains("ilike"), true);
    }

    static void copies(Connection c) throws Exception {
        execute(c, "CREATE TABLE copied (x int, y text)");
        var copy = c.unwrap(PGConnection.class).getCopyAPI();
        same(copy.copyIn("COPY copied FROM STDIN WITH (FORMAT csv)", new StringReader("1,a\n2,\"b,c\"\n")), 2L);
        StringWriter out = new StringWriter();
        same(copy.copyOut("COPY (SELECT * FROM copied ORDER BY x) TO STDOUT", out), 2L);
        same(out.toString(), "1\ta\n2\tb,c\n");
        fails("22P02", () -> {
            try {
                copy.copyIn("COPY copied FROM STDIN", new StringReader("x\ty\n"));
            } catch (java.io.IOException error) {
                throw new AssertionError(error);
            }
        });
    }

    static void cancelling(Connection c) throws Exception {
        try (Statement s = c.createStatement()) {
            s.setQueryTimeout(1);
            fails("57014", () -> s.execute("SELECT pg_sleep(50)"));
            s.setQueryTimeout(0);
            var later = Executors.newSingleThreadScheduledExecutor();
            later.schedule(() -> {
                s.cancel();
                return null;
            }, 300, TimeUnit.MILLISECONDS);
            fails("57014", () -> s.execute("SELECT pg_sleep(50)"));
            later.shutdownNow();
        }
        same(rows(c, "SELECT 1"), List.of("1"));
    }

    static void errorsSayWhereAndWhat(Connection c) throws Exception {
        execute(c, "CREATE TABLE wrong (x int CONSTRAINT wrong_x UNIQUE, y int NOT NULL); INSERT INTO wrong VALUES (1, 1)");
        var e = ((PSQLException) fails("23505", () -> execute(c, "INSERT INTO wrong VALUES (1, 2)"))).getServerErrorMessage();
        same(List.of(e.getConstraint(), e.getTable(), e.getSchema(), e.getDetail()),
            List.of("wrong_x", "wrong", "public", "Key (x)=(1) already exists."));
        e = ((PSQLException) fails("23502", () -> execute(c, "INSERT INTO wrong VALUES (2)"))).getServerErrorMessage();
        same(e.getColumn(), "y");
        e = ((PSQLException) fails("42703", () -> execute(c, "SELECT nothing"))).getServerErrorMessage();
        same(e.getPosition(), 8);
        fails("42601", () -> execute(c, "SELEC 1"));
        try (Statement s = c.createStatement()) {
            s.execute("DROP TABLE IF EXISTS never_was");
            same(s.getWarnings().getMessage(), "table \"never_was\" does not exist, skipping");
        }
    }

    static void callsOfFunctions(Connection c) throws Exception {
        try (CallableStatement s = c.prepareCall("{? = call upper(?)}")) {
            s.registerOutParameter(1, Types.VARCHAR);
            s.setString(2, "loud");
            s.execute();
            same(s.getString(1), "LOUD");
        }
        same(rows(c, "SELECT {fn concat('a', 'b')}, {d '2024-02-29'}, {fn abs(-1)}"), List.of("ab|2024-02-29|1"));
    }

    static void enumsAsValues(Connection c) throws Exception {
        execute(c, "CREATE TYPE mood AS ENUM ('sad', 'happy'); CREATE TABLE moods (m mood, n mood[])");
        try (PreparedStatement s = c.prepareStatement("INSERT INTO moods VALUES (?::mood, ?) RETURNING m, n")) {
            for (int k = 0; k < 8; k++) {
                s.setString(1, "happy");
                s.setArray(2, c.createArrayOf("mood", new Object[] {"sad"}));
                same(rows(s.executeQuery()), List.of("happy|{sad}"));
            }
        }
    }

    static void notificationsArrive(Connection c) throws Exception {
        execute(c, "LISTEN news");
        try (Connection d = connect(other)) {
            execute(d, "NOTIFY news, 'one'");
        }
        var heard = c.unwrap(PGConnection.class).getNotifications(10_000);
        same(List.of(heard.length, heard[0].getName(), heard[0].getParameter()), List.of(1, "news", "one"));
    }

    /** Runs one check with a connection and a time; a failed one is not the program's failure: the runner knows which may fail. */
    static void run(String name, Check check) {
        var executor = Executors.newSingleThreadExecutor();
        Future<?> end = executor.submit(() -> {
            try (Connection c = connect(url, "ApplicationName", "checks")) {
                check.run(c);
            }
            return null;
        });
        try {
            end.get(PATIENCE_SECONDS, TimeUnit.SECONDS);
            System.out.println("ok " + name);
        } catch (Exception error) {
            Throwable why = error.getCause() == null ? error : error.getCause();
            System.out.println("failed " + name + ": " + String.valueOf(why).replaceAll("\\s+", " "));
            for (StackTraceElement at : why.getStackTrace()) {
                System.out.println("    " + at);
            }
        }
        executor.shutdownNow();
    }

    public static void main(String[] arguments) {
        url = "jdbc:" + arguments[0].replace("postgres@", "") + "?user=postgres";
        other = arguments.length > 1 ? "jdbc:" + arguments[1].replace("postgres@", "") + "?user=postgres" : url;
        run("connecting", WithPgjdbc::connecting);
        run("values_come_back", WithPgjdbc::valuesComeBack);
        run("rows_are_written", WithPgjdbc::rowsAreWritten);
        run("batches", WithPgjdbc::batches);
        run("fetch_sizes", WithPgjdbc::fetchSizes);
        run("transactions_and_savepoints", WithPgjdbc::transactionsAndSavepoints);
        run("updatable_rows", WithPgjdbc::updatableRows);
        run("statements_survive_changes_of_their_tables", WithPgjdbc::statementsSurviveChangesOfTheirTables);
        run("metadata_of_results", WithPgjdbc::metadataOfResults);
        run("metadata_of_the_database", WithPgjdbc::metadataOfTheDatabase);
        run("keywords", WithPgjdbc::keywords);
        run("copies", WithPgjdbc::copies);
        run("cancelling", WithPgjdbc::cancelling);
        run("errors_say_where_and_what", WithPgjdbc::errorsSayWhereAndWhat);
        run("calls_of_functions", WithPgjdbc::callsOfFunctions);
        run("enums_as_values", WithPgjdbc::enumsAsValues);
        run("notifications_arrive", WithPgjdbc::notificationsArrive);
        // What a failed check has left running would keep the process.
        System.exit(0);
    }
}
