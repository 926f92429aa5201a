// What a JDBC tool asks of a server: what there is, statements with and without values, those that change something, and what is refused.

import java.sql.Connection;
import java.sql.DatabaseMetaData;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.Properties;

public class Ask {
    public static void main(String[] arguments) throws Exception {
        Properties properties = new Properties();
        properties.put("useEncryption", "false");
        String address = "jdbc:arrow-flight-sql://" + arguments[0];
        try (Connection connection = DriverManager.getConnection(address, properties)) {
            DatabaseMetaData about = connection.getMetaData();
            System.out.println("server " + about.getDatabaseProductName());
            print("table", about.getTables(null, null, "%", null), 1, 2, 3, 4);
            print("column", about.getColumns(null, null, "trade", "%"), 4, 5);
            try (Statement statement = connection.createStatement()) {
                print("row", statement.executeQuery("select time, sym, price, size from trade order by time limit 2"), 1, 2, 3, 4);
            }
            String counted = "select sym, count(*) as n from trade where sym = ? and price < ? group by sym";
            try (PreparedStatement statement = connection.prepareStatement(counted)) {
                for (String symbol : new String[] {"IBM", "AIG", "none"}) {
                    statement.setString(1, symbol);
                    statement.setDouble(2, 1e9);
                    print("counted", statement.executeQuery(), 1, 2);
                }
            }
            for (String wrong : new String[] {"select nothing from trade", "select from where"}) {
                try (Statement statement = connection.createStatement()) {
                    statement.executeQuery(wrong);
                    System.out.println("taken " + wrong);
                } catch (SQLException error) {
                    System.out.println("refused " + error.getMessage().replace('\n', ' '));
                }
            }
            try (Statement statement = connection.createStatement()) {
                String row = "insert into trade (time, sym, price, size) values ('2026-01-02 10:00', 'JDBC', 1.5, 7)";
                System.out.println("changed|" + statement.executeUpdate(row));
            }
            try (PreparedStatement statement = connection.prepareStatement("update trade set size = size + 1 where sym = ?")) {
                statement.setString(1, "JDBC");
                System.out.println("changed|" + statement.executeUpdate());
            }
            try (Statement statement = connection.createStatement()) {
                print("updated", statement.executeQuery("select sym, size from trade where sym = 'JDBC'"), 1, 2);
                statement.executeUpdate("insert into nowhere values (1)");
                System.out.println("taken insert");
            } catch (SQLException error) {
                System.out.println("refused " + error.getMessage().replace('\n', ' '));
            }
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
