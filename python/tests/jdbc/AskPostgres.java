// What a JDBC tool asks through PostgreSQL's driver: statements with and without values, in parts, what there is, and what is refused.

import java.sql.Connection;
import java.sql.DatabaseMetaData;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.sql.Timestamp;

public class AskPostgres {
    public static void main(String[] arguments) throws Exception {
        String address = "jdbc:postgresql://" + arguments[0] + "/market?user=anybody";
        try (Connection connection = DriverManager.getConnection(address)) {
            try (Statement statement = connection.createStatement()) {
                print("row", statement.executeQuery("select time, sym, price, size from trade order by size limit 2"), 1, 2, 3, 4);
            }
            String counted = "select sym, count(*) as n from trade where sym = ? and price < ? group by sym";
            try (PreparedStatement statement = connection.prepareStatement(counted)) {
                // The driver prepares it on the server, and asks for binary values, from the fifth time on.
                for (int times = 0; times < 6; times++) {
                    for (String symbol : new String[] {"IBM", "AIG", "none"}) {
                        statement.setString(1, symbol);
                        statement.setDouble(2, 1e9);
                        print("counted", statement.executeQuery(), 1, 2);
                    }
                }
            }
            try (PreparedStatement statement = connection.prepareStatement("select count(*) from trade where time >= ?")) {
                statement.setTimestamp(1, Timestamp.valueOf("2026-01-01 00:00:00"));
                print("since", statement.executeQuery(), 1);
            }
            connection.setAutoCommit(false);
            try (Statement statement = connection.createStatement()) {
                statement.setFetchSize(300);
                long rows = 0;
                long sum = 0;
                try (ResultSet result = statement.executeQuery("select size from trade")) {
                    while (result.next()) {
                        rows++;
                        sum += result.getLong(1);
                    }
                }
                System.out.println("paged|" + rows + "|" + sum);
            }
            connection.commit();
            connection.setAutoCommit(true);
            for (String wrong : new String[] {"select nothing from trade", "select (1 from trade"}) {
                try (Statement statement = connection.createStatement()) {
                    statement.executeQuery(wrong);
                    System.out.println("taken " + wrong);
                } catch (SQLException error) {
                    System.out.println("refused " + error.getSQLState());
                }
            }
            DatabaseMetaData about = connection.getMetaData();
            print("table", about.getTables(null, "public", "%", new String[] {"TABLE"}), 2, 3, 4);
            print("column", about.getColumns(null, "public", "trade", "%"), 4, 6);
            // There are no indexes, and the driver asks for their columns by functions of its own.
            print("key", about.getPrimaryKeys(null, "public", "trade"), 4, 6);
            print("best", about.getBestRowIdentifier(null, "public", "trade", DatabaseMetaData.bestRowSession, true), 2);
            print("index", about.getIndexInfo(null, "public", "trade", false, false), 6, 9);
            System.out.println("keywords|" + about.getSQLKeywords());
        }
    }

    private static void print(String what, ResultSet rows, int... columns) throws SQLException {
        try (rows) {
            while (rows.next()) {
                StringBuilder line = new StringBuilder(what);
                for (int column : columns) {
                    line.append('|').append(rows.getString(column));
                }
                System.out.println(line);
            }
        }
    }
}
